// The four places at which position enters, with a text of equal words: each pattern is position.
import {meanOfHeads, planOf, projections, queriesKeysValues, vectors, withTable}
  from './shared/layer.js';
import {format} from './shared/format.js';

const width = 32, heads = 4, tokens = 12, threshold = 0.001;

const places = [
  {value: 'nowhere', encoding: 'none', scheme: {en: 'none', zh: '无'},
   label: {en: 'nowhere', zh: '不加入'}},
  {value: 'embeddings', encoding: 'sinusoidal', scheme: {en: 'sinusoidal', zh: '正弦'},
   use: {en: 'With the sinusoid', zh: '使用正弦编码时'},
   label: {en: 'embeddings', zh: '嵌入'}},
  {value: 'queries', encoding: 'rotary', scheme: {en: 'RoPE', zh: 'RoPE'},
   use: {en: 'With RoPE', zh: '使用 RoPE 时'},
   label: {en: 'queries and keys', zh: '查询和键'}},
  {value: 'scores', encoding: 'alibi', scheme: {en: 'ALiBi', zh: 'ALiBi'},
   use: {en: 'With ALiBi', zh: '使用 ALiBi 时'},
   label: {en: 'scores', zh: '分数'}},
  {value: 'keys', encoding: 'shaw', scheme: {en: 'Shaw', zh: 'Shaw'},
   use: {en: 'With Shaw\'s vectors', zh: '使用 Shaw 的向量时'},
   label: {en: 'keys and values', zh: '键和值'}},
];

function weightsOf(gnomon, encoding, x, matrices) {
  const plan = planOf(gnomon, encoding, {width, heads, tokens, causal: false});
  const [q, k] = queriesKeysValues(withTable(plan, x, width), matrices, width);
  const weights = meanOfHeads(plan.weights(q, k, {heads}), heads);
  plan.free();
  return weights;
}

// The largest difference between two weights of one query.
function spreadOf(weights) {
  const rows = Array.from({length: tokens}, (_, t) =>
    weights.slice(t * tokens, (t + 1) * tokens));
  return Math.max(...rows.map(row => Math.max(...row) - Math.min(...row)));
}

export default {
  name: 'four-places',
  data: [],
  controls: [
    {name: 'place', type: 'choice', value: 'embeddings',
     label: {en: 'Position enters at', zh: '位置加入之处'},
     options: places.map(({value, label}) => ({value, label}))},
  ],
  breaks: {place: 'nowhere'},

  compute(gnomon, {place}) {
    const x = vectors(gnomon, Array(tokens).fill('word'), width);
    const matrices = projections(gnomon, width, 51);
    const all = places.map(({encoding}) => weightsOf(gnomon, encoding, x, matrices));
    const chosen = places.findIndex(({value}) => value === place);
    return {weights: all[chosen], chosen, spreads: all.map(spreadOf)};
  },

  claim: ({spreads, chosen}) => spreads[chosen] > threshold,

  say({spreads, weights, chosen}, state, language) {
    const en = language === 'en', {label, use} = places[chosen];
    if (spreads[chosen] <= threshold)
      return en
        ? `Position enters ${label.en}: each of the ${tokens} equal words has the weight ` +
          `${format(weights[0])} = 1/${tokens}.`
        : `没有加入位置：${tokens} 个相同的词，每个的权重都是 ${format(weights[0])} = 1/${tokens}。`;
    const low = format(Math.min(...weights)), high = format(Math.max(...weights));
    return en
      ? `${use.en}, position enters at the ${label.en}. The words are equal, and their ` +
        `weights are between ${low} and ${high}: all of this pattern is position.`
      : `${use.zh}，位置在${label.zh}处加入。词全部相同，权重却在 ${low} 与 ${high} 之间：` +
        '这个图案完全来自位置。';
  },

  draw(view, {weights, spreads, chosen}, state, language) {
    const en = language === 'en';
    view.drawing('layer', {
      width: 360, height: 132, title: en ? 'One layer of attention' : '一层注意力'}, pen => {
      const boxes = en ? ['embeddings', 'q, k', 'scores', 'softmax', 'k, v, sum']
                       : ['嵌入', 'q、k', '分数', 'softmax', 'k、v、求和'];
      const at = i => 2 + 72 * i, active = [-1, 0, 1, 2, 4][chosen];
      boxes.forEach((text, i) => {
        const isActive = i === active;
        pen.rect(at(i), 12, 66, 36, {colour: isActive ? 'a' : 'muted', width: isActive ? 3 : 1.5});
        pen.text(at(i) + 33, 30, text, {size: 11});
        if (i + 1 < boxes.length) pen.line(at(i) + 66, 30, at(i + 1), 30, {colour: 'muted'});
      });
      [0, 1, 2, 4].forEach((box, i) => {
        const {scheme, value} = places[i + 1], isActive = value === places[chosen].value;
        const colour = isActive ? 'a' : 'muted';
        pen.arrow(at(box) + 33, 88, at(box) + 33, 50, {colour, width: isActive ? 3 : 1.5});
        pen.text(at(box) + 33, 98, scheme[language], {size: 12, colour});
      });
      pen.text(180, 122, en ? 'position' : '位置', {size: 12, colour: 'muted'});
    });
    view.heatmap('weights', {
      values: weights, rows: tokens, columns: tokens, scale: 'sequential', span: 'half',
      range: [0, Math.max(...weights)], firstRow: 1, firstColumn: 1,
      title: en ? `Weights of ${tokens} equal words` : `${tokens} 个相同词的权重`,
      rowTitle: en ? 'query' : '查询', columnTitle: en ? 'key' : '键',
    });
    view.bars('spreads', {
      title: en ? 'Largest difference between two weights of a query' : '同一查询的权重最大差',
      span: 'half',
      bars: places.map(({label}, i) => ({name: label[language],
                                         value: spreads[i] <= threshold ? 0 : spreads[i],
                                         colour: i === chosen ? 'a' : 'muted'})),
    });
  },

  numbers(gnomon) {
    const {weights, spreads} = this.compute(gnomon, {place: 'nowhere'});
    return {tokens: String(tokens), uniform: format(weights[0]),
            least: format(Math.min(...spreads.slice(1)), 2)};
  },
};
