// What an encoding adds to a score: a number by distance, or a product with the contents.
import {fixed, say} from '../rows.js';

const tokens = 10, width = 16;
const scaled = (values, factor) => values.map(value => value * factor);

// Scores of the same queries and keys with parameters, without position if encoding is `none`.
function scoresOf(gnomon, name, seed, parameters) {
  const encoding = gnomon.encoding(name, {width, heads: 1, length: 32});
  const plan = encoding.plan({keys: tokens, parameters: parameters ?? encoding.parameters.map(
      (one, i) => gnomon.normal(one.rows * one.columns, 7 + i))});
  const scores = plan.scores(gnomon.normal(tokens * width, 2 * seed),
                             gnomon.normal(tokens * width, 2 * seed + 1), {heads: 1});
  plan.free();
  encoding.free();
  return scores;
}

// The parameters w, u and v of Transformer-XL, of which only those of a term are not zero.
function transformerXl(gnomon, {w = 0, u = 0, v = 0}) {
  return [scaled(gnomon.normal(width * width, 7), w / Math.sqrt(width)),
          scaled(gnomon.normal(width, 8), u), scaled(gnomon.normal(width, 9), v)];
}

function addition(gnomon, kind, seed) {
  const xl = terms => scoresOf(gnomon, 'transformer-xl', seed, transformerXl(gnomon, terms));
  const [one, other] = {
    'xl-key': () => [xl({u: 1}), xl({})],
    'xl-query': () => [xl({w: 1}), xl({})],
    'xl-distance': () => [xl({w: 1, v: 1}), xl({w: 1})],
  }[kind]?.() ?? [scoresOf(gnomon, kind, seed), scoresOf(gnomon, 'none', seed)];
  return one.map((score, at) => at % tokens > Math.floor(at / tokens) ? NaN : score - other[at]);
}

export default {
  name: 'bias-vectors',
  data: [],
  controls: [
    {name: 'kind', type: 'choice', value: 't5',
     options: [
       {value: 't5', label: {en: 'T5: a number', zh: 'T5：一个数'}},
       {value: 'alibi', label: {en: 'ALiBi: a number', zh: 'ALiBi：一个数'}},
       {value: 'shaw', label: {en: 'Shaw: q · a', zh: 'Shaw：q · a'}},
       {value: 'xl-query', label: {en: 'Transformer-XL: q · W r', zh: 'Transformer-XL：q · W r'}},
       {value: 'xl-key', label: {en: 'Transformer-XL: u · k', zh: 'Transformer-XL：u · k'}},
       {value: 'xl-distance', label: {en: 'Transformer-XL: v · W r', zh: 'Transformer-XL：v · W r'}},
     ],
     label: {en: 'Addition to the score', zh: '加到分数上的项'}},
    {name: 'text', type: 'range', min: 1, max: 20, step: 1, value: 1,
     label: {en: 'Text number', zh: '文本编号'}},
  ],
  breaks: {kind: 'shaw'},

  compute(gnomon, {kind, text}) {
    const values = addition(gnomon, kind, text);
    const low = Array(tokens).fill(Infinity), high = Array(tokens).fill(-Infinity);
    values.forEach((value, at) => {
      const distance = Math.floor(at / tokens) - at % tokens;
      if (distance < 0) return;
      low[distance] = Math.min(low[distance], value);
      high[distance] = Math.max(high[distance], value);
    });
    return {values, low, high, spread: Math.max(...high.map((value, d) => value - low[d]))};
  },

  claim: ({spread}) => spread < 1e-4,

  say({spread}, _, language) {
    return spread < 1e-4
        ? say(language,
              'All pairs of the same distance get the same number, whatever the tokens are.',
              '距离相同的所有词元对得到同一个数，与词元内容无关。')
        : say(language,
              `Pairs of the same distance get numbers that differ by up to ${fixed(spread)}: the ` +
              'addition depends on the tokens.',
              `距离相同的词元对得到的数最多相差 ${fixed(spread)}：这一项取决于词元内容。`);
  },

  draw(view, {values, low, high}, _, language) {
    view.heatmap('values', {
      values, rows: tokens, columns: tokens, scale: 'diverging', span: 'half',
      title: say(language, 'Addition to each score', '加到每个分数上的数'),
      rowTitle: say(language, 'query', '查询'), columnTitle: say(language, 'key', '键'),
    });
    const distances = [...low.keys()];
    view.lines('distances', {
      series: [{name: say(language, 'lowest and highest', '最小值与最大值'), x: distances, low, high,
                y: low.map((value, d) => (value + high[d]) / 2), points: true}],
      span: 'half', title: say(language, 'The same by distance', '按距离排列'),
      xTitle: say(language, 'distance', '距离'), yTitle: say(language, 'addition', '所加的数'),
    });
  },

  numbers(gnomon) {
    return {shaw: fixed(this.compute(gnomon, {kind: 'shaw', text: 1}).spread)};
  },
};
