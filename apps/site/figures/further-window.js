// Chapter 6: how far the last query sees, by the length of the text.
import {number} from '../web/text.js';
import {repeated} from './shared/vectors.js';

const size = 8, heads = 8, lengths = [64, 128, 256, 512, 1024], share = 0.99;
const window = 64;

// The plan of the last query, for one head.
function plan(gnomon, kind, head, keys) {
  const options = {keys, queries: 1};
  const spec = {
    none: {kind: 'none'},
    window: {kind: 'none'},
    alibi: {kind: 'alibi', heads, head_offset: head - 1, local_heads: 1},
  }[kind] ?? {kind, rotary_dim: size, pairing: 'halves'};
  return gnomon.encoding(spec).plan(kind === 'window' ? {...options, left: window - 1} : options);
}

export default {
  name: 'further-window',
  data: [],
  controls: [
    {name: 'kind', type: 'choice', value: 'alibi', options: [
      {value: 'alibi', label: {en: 'ALiBi', zh: 'ALiBi'}},
      {value: 'window', label: {en: `sliding window of ${window} keys`, zh: `${window} 个键的滑动窗口`}},
      {value: 'rotary', label: {en: 'RoPE', zh: 'RoPE'}},
      {value: 'xpos', label: {en: 'xPos', zh: 'xPos'}},
      {value: 'none', label: {en: 'no position', zh: '无位置'}},
    ], label: {en: 'Encoding', zh: '编码'}},
    {name: 'head', type: 'range', min: 1, max: heads, step: 1, value: 5,
     label: {en: 'Head, of 8 slopes of ALiBi', zh: '头（ALiBi 的 8 个斜率之一）'}},
    {name: 'length', type: 'choice', value: '1024',
     options: lengths.map(n => ({value: String(n), label: {en: String(n), zh: String(n)}})),
     label: {en: 'Length of the text', zh: '文本长度'}},
  ],
  breaks: {kind: 'rotary'},

  compute(gnomon, {kind, head, length}) {
    // Equal contents: a score without position is 8 x 0.5 / sqrt(8) = 1.4.
    const one = new Float32Array(size).fill(Math.SQRT1_2);
    const all = lengths.map(keys => plan(gnomon, kind, head, keys)
        .weights(one, repeated(one, keys), {heads: 1}));
    // The number of keys that hold 99 % of the weight, largest weights first.
    const reach = all.map(weights => {
      const sorted = Float32Array.from(weights).sort().reverse();
      let sum = 0, count = 0;
      while (count < sorted.length && sum < share) sum += sorted[count++];
      return count;
    });
    return {reach, weights: all[lengths.indexOf(Number(length))].slice().reverse()};
  },

  // Doubling the longest text but one adds no key.
  claim: ({reach}) => reach.at(-1) <= reach.at(-2) + 1 && reach.at(-2) < lengths.at(-2) / 2,

  say({reach}, _, language) {
    const [first, last] = [reach[0], reach.at(-1)];
    return language === 'zh'
        ? `最后一个查询把 99 % 的权重分给：文本有 ${lengths[0]} 个词元时 ${first} 个键，` +
          `有 ${lengths.at(-1)} 个时 ${last} 个键。`
        : `The last query has 99 % of its weight on ${first} keys in a text of ${lengths[0]} ` +
          `tokens, and on ${last} keys in one of ${lengths.at(-1)}.`;
  },

  draw(view, {reach, weights}, {length}, language) {
    const zh = language === 'zh', distances = Array.from(weights, (_, d) => d + 1);
    view.lines('reach', {
      span: 'half', height: 260, xLog: true, yLog: true, yRange: [1, 1024],
      title: zh ? '占 99 % 权重的键数' : 'Keys with 99 % of the weight',
      xTitle: zh ? '文本长度' : 'length of the text', yTitle: zh ? '键' : 'keys',
      series: [{x: lengths, y: reach, points: true}],
    });
    view.lines('weights', {
      span: 'half', height: 260, xLog: true, yLog: true, yRange: [1e-6, 1],
      title: zh ? `${length} 个词元时的权重` : `Weights in ${length} tokens`,
      xTitle: zh ? '第几个键（1：最近）' : 'key, counted back from 1', yTitle: zh ? '权重' : 'weight',
      series: [{x: distances, y: weights.map(w => w >= 1e-6 ? w : Infinity)}],
    });
  },

  numbers(gnomon) {
    const at = (kind, head = 5) => this.compute(gnomon, {kind, head, length: '1024'}).reach.at(-1);
    return {
      alibi: String(at('alibi')), first: String(at('alibi', 1)), rotary: String(at('rotary')),
      xpos: String(at('xpos')), window: String(at('window')),
    };
  },
};
