// Chapter 5: the two pairings of elements, and heads run with the wrong one.
import {number} from '../web/text.js';
import {largest, repeated} from './shared/vectors.js';

const tokens = 24, size = 32, heads = 8, sharpness = 2;

// Element i of `halves` is element order[i] of `adjacent`: 0, 2, 4, ..., then 1, 3, 5, ...
const order = Array.from({length: size}, (_, i) => i < size / 2 ? 2 * i : 2 * i - size + 1);
const converted = rows => Float32Array.from(
    rows, (_, i) => rows[i - i % size + order[i % size]]);

export default {
  name: 'turn-pairing',
  data: [],
  controls: [
    {name: 'run', type: 'choice', value: 'adjacent', options: [
      {value: 'adjacent', label: {en: 'adjacent pairs, as in training', zh: '相邻配对（与训练一致）'}},
      {value: 'halves', label: {en: 'pairs of halves: the wrong pairing', zh: '前后两半配对（配错）'}},
      {value: 'converted',
       label: {en: 'pairs of halves, converted weights', zh: '前后两半配对，权重已转换'}},
    ], label: {en: 'The engine rotates', zh: '推理引擎的配对'}},
    {name: 'back', type: 'range', min: 0, max: 12, step: 1, value: 4,
     label: {en: 'The heads were trained to look back by', zh: '这些头被训练成看向前面第几个词元'},
     unit: {en: 'tokens', zh: '个词元'}},
    {name: 'head', type: 'range', min: 1, max: heads, step: 1, value: 1,
     label: {en: 'Head in the picture', zh: '图中的注意力头'}},
  ],
  breaks: {run: 'halves'},

  compute(gnomon, {run, back, head}) {
    // Weights as trained, with adjacent pairs: each head has one query and one key for all tokens.
    let keys = gnomon.normal(heads * size, 5);
    let queries = gnomon.rotate(Float32Array.from(keys, v => sharpness * v), [back],
                                {heads, rotaryDim: size, pairing: 'adjacent', inverse: true});
    if (run === 'converted') [queries, keys] = [converted(queries), converted(keys)];
    const pairing = run === 'adjacent' ? 'adjacent' : 'halves';
    const weights = gnomon.encoding({kind: 'rotary', rotary_dim: size, pairing})
                        .plan({keys: tokens})
                        .weights(repeated(queries, tokens), repeated(keys, tokens), {heads});
    const right = new Array(heads).fill(0);
    let sum = 0;
    for (let h = 0; h < heads; ++h)
      for (let t = back; t < tokens; ++t) {
        const row = (h * tokens + t) * tokens;
        if (largest(weights.subarray(row, row + t + 1)) === t - back) ++right[h];
        sum += weights[row + t - back];
      }
    const shown = weights.slice((head - 1) * tokens * tokens, head * tokens * tokens);
    for (let t = 0; t < tokens; ++t) shown.fill(NaN, t * tokens + t + 1, (t + 1) * tokens);
    return {shown, rows: tokens - back, right, mean: sum / heads / (tokens - back)};
  },

  claim: ({right, rows}) => right.every(count => count === rows),

  say({right, rows, mean}, {back, run}, language) {
    const good = right.reduce((sum, one) => sum + one, 0), all = rows * heads;
    if (language === 'zh')
      return `${heads} 个头共 ${all} 行，其中 ${good} 行的最大权重落在` +
             `${back ? `前面第 ${back} 个词元` : '词元自身'}上，` +
             `该处的平均权重为 ${number(mean, 2)}。${run === 'halves' ? '程序不会报错。' : ''}`;
    return `In ${good} of the ${all} rows of ${heads} heads the largest weight is ` +
           `${back ? `${back} back` : 'on the token itself'}; the mean weight there is ` +
           `${number(mean, 2)}.` +
           (run === 'halves' ? ' No error is reported.' : '');
  },

  draw(view, {shown}, {run, back, head}, language) {
    const zh = language === 'zh', isAdjacent = run === 'adjacent';
    view.drawing('pairs', {width: 400, height: 96, title: zh
        ? '引擎的配对，只画 8 个元素（数字：训练时的编号）'
        : 'Pairs of the engine, 8 elements drawn (their numbers in training)'}, pen => {
      const colours = ['a', 'b', 'c', 'd'], x = i => 36 + 47 * i;
      for (let i = 0; i < 4; ++i) {
        const [first, second] = isAdjacent ? [2 * i, 2 * i + 1] : [i, i + 4];
        const top = 62 - (isAdjacent ? 22 : 18 + 12 * i);
        pen.path([[x(first), 62], [x(first), top], [x(second), top], [x(second), 62]],
                 {colour: colours[i]});
      }
      for (let i = 0; i < 8; ++i) {
        const element = run === 'converted' ? (i < 4 ? 2 * i : 2 * i - 7) : i;
        pen.rect(x(i) - 15, 62, 30, 28, {colour: colours[isAdjacent ? i >> 1 : i % 4]});
        pen.text(x(i), 77, element, {size: 13});
      }
    });
    view.heatmap('weights', {
      values: shown, rows: tokens, columns: tokens, scale: 'sequential',
      title: zh ? `第 ${head} 个头的注意力权重` : `Attention weights of head ${head}`,
      rowTitle: zh ? '查询' : 'query', columnTitle: zh ? '键' : 'key',
      marks: Array.from({length: tokens - back}, (_, i) => ({row: i + back, column: i})),
    });
  },

  numbers(gnomon) {
    const at = (run, back = 4) => this.compute(gnomon, {run, back, head: 1});
    const kept = back => number(100 * at('halves', back).mean / at('adjacent', back).mean, 2);
    const sum = list => String(list.reduce((total, one) => total + one, 0));
    const right = at('adjacent'), wrong = at('halves');
    return {
      rows: sum(right.right), wrongRows: sum(wrong.right),
      near: kept(1), far: kept(4),
    };
  },
};
