// The attention of a text at the start of the context and further back.
import {multiply, say} from '../rows.js';
import {number} from '../web/text.js';

const width = 32, tokens = 6, rows = 64;
const words = {en: ['the', 'cat', 'chases', 'the', 'dog', '.'],
               zh: ['猫', '在', '追', '那只', '狗', '。']};
const kinds = [
  {value: 't5', label: {en: 'T5 bias', zh: 'T5 偏置'}},
  {value: 'alibi', label: {en: 'ALiBi', zh: 'ALiBi'}},
  {value: 'shaw', label: {en: 'Shaw', zh: 'Shaw'}},
  {value: 'transformer-xl', label: {en: 'Transformer-XL', zh: 'Transformer-XL'}},
  {value: 'rotary', label: {en: 'RoPE', zh: 'RoPE'}},
  {value: 'learned', label: {en: 'learned table', zh: '可学习位置编码'}},
  {value: 'sinusoidal', label: {en: 'sinusoid', zh: '正弦位置编码'}},
];

// The weights [tokens, tokens] among the words if `shift` other tokens come before them.
function weightsAt(gnomon, kind, shift) {
  const keys = shift + tokens;
  const encoding = gnomon.encoding(kind, {width, heads: 1, length: rows});
  const parameters = encoding.parameters.map(
      (one, i) => gnomon.normal(one.rows * one.columns, 10 + i)
          .map(value => value * (kind === 'transformer-xl' ? width ** -0.5 : 1)));
  const plan = encoding.plan({keys, queries: tokens, parameters});
  const x = gnomon.normal(tokens * width, 1), table = plan.table(tokens, width);
  for (let i = 0; i < x.length; ++i) x[i] += table[i];
  const matrix = seed => gnomon.normal(width * width, seed).map(value => value * width ** -0.5);
  const project = seed => multiply(x, matrix(seed), tokens, width, width);
  const q = project(2), k = new Float32Array(keys * width);
  k.set(project(3), shift * width);
  const scores = plan.scores(q, k, {heads: 1});
  plan.free();
  encoding.free();
  // The softmax over the words only, so that the tokens before them take no share.
  const weights = new Float64Array(tokens * tokens).fill(NaN);
  for (let i = 0; i < tokens; ++i) {
    const row = scores.subarray(i * keys + shift, i * keys + shift + i + 1);
    const most = Math.max(...row);
    const sum = row.reduce((all, score) => all + Math.exp(score - most), 0);
    row.forEach((score, j) => { weights[i * tokens + j] = Math.exp(score - most) / sum; });
  }
  return weights;
}

export default {
  name: 'bias-shift',
  data: [],
  controls: [
    {name: 'kind', type: 'choice', value: 't5', options: kinds,
     label: {en: 'Encoding', zh: '位置编码'}},
    {name: 'shift', type: 'range', min: 1, max: rows - tokens, step: 1, value: 24,
     label: {en: 'Tokens before the text', zh: '文本之前的词元数'}},
  ],
  breaks: {kind: 'learned'},

  compute(gnomon, {kind, shift}) {
    const start = weightsAt(gnomon, kind, 0), moved = weightsAt(gnomon, kind, shift);
    let change = 0;
    start.forEach((weight, at) => {
      if (weight >= 0) change = Math.max(change, Math.abs(weight - moved[at]));
    });
    return {start, moved, change};
  },

  claim: ({change}) => change < 1e-5,

  say({change}, {shift}, language) {
    return change < 1e-5
        ? say(language,
              'The weights among the words are the same at positions 0 to 5 and at positions ' +
              `${shift} to ${shift + 5}: the largest difference is ${number(change, 2)}.`,
              `这些词在位置 0 到 5 与在位置 ${shift} 到 ${shift + 5} 时，彼此之间的权重相同：最大差别为 ` +
              `${number(change, 2)}。`)
        : say(language,
              `At positions ${shift} to ${shift + 5} the weights among the same words differ by ` +
              `up to ${number(change, 2)} from those at positions 0 to 5.`,
              `同样的词移到位置 ${shift} 到 ${shift + 5} 后，彼此之间的权重与在位置 0 到 5 时最多相差 ` +
              `${number(change, 2)}。`);
  },

  draw(view, {start, moved}, {shift}, language) {
    const draw = (id, values, first) => view.heatmap(id, {
      values, rows: tokens, columns: tokens, range: [0, 1], span: 'half',
      title: say(language, `Text at positions ${first} to ${first + tokens - 1}`,
                 `文本位于位置 ${first} 到 ${first + tokens - 1}`),
      rowLabels: words[language], columnLabels: words[language],
      rowTitle: say(language, 'query', '查询'), columnTitle: say(language, 'key', '键'),
    });
    draw('start', start, 0);
    draw('moved', moved, shift);
  },

  numbers(gnomon) {
    const change = kind => number(this.compute(gnomon, {kind, shift: 24}).change, 2);
    return {learned: change('learned'), sinusoidal: change('sinusoidal')};
  },
};
