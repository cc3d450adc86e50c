// How far a head of ALiBi sees: a key that matches best, at a distance.
import {percent, say} from '../rows.js';

const keys = 4096;

// The weights of the last query, whose scores are the bias, and `lead` more at a distance.
function weightsOf(bias, distance, lead) {
  const most = Math.max(bias[keys - 1], bias[keys - 1 - distance] + lead);
  const weights = bias.map(
      (one, j) => Math.exp(one + (j === keys - 1 - distance ? lead : 0) - most));
  const sum = weights.reduce((all, weight) => all + weight, 0);
  return weights.map(weight => weight / sum);
}

// The least number of keys before the query that have 99 % of its weight.
function reachOf(weights) {
  let sum = 0;
  for (let n = 1; n <= keys; ++n) {
    sum += weights[keys - n];
    if (sum >= 0.99) return n;
  }
  return keys;
}

export default {
  name: 'bias-sight',
  data: [],
  controls: [
    {name: 'exponent', type: 'range', min: 0, max: 11, step: 1, value: 8,
     label: {en: 'Distance of the matching key: 2 to the power of', zh: '匹配键的距离为 2 的幂，指数'}},
    {name: 'lead', type: 'range', min: 0, max: 20, step: 1, value: 10,
     label: {en: 'Its score above the others', zh: '其分数高出其他键'}},
    {name: 'heads', type: 'choice', value: 8,
     options: [8, 12].map(value => ({value, label: {en: `${value}`, zh: `${value}`}})),
     label: {en: 'Heads', zh: '注意力头数'}},
  ],
  breaks: {exponent: 3},

  compute(gnomon, {exponent, lead, heads}) {
    const distance = 2 ** exponent, slopes = [...gnomon.alibiSlopes(heads)];
    const encoding = gnomon.encoding({kind: 'alibi', heads});
    const plan = encoding.plan({keys, queries: 1});
    const all = plan.bias(heads, 1, keys);
    const bias = h => all.subarray(h * keys, (h + 1) * keys);
    plan.free();
    encoding.free();
    return {
      distance, slopes,
      weights: slopes.map((_, h) => weightsOf(bias(h), distance, lead)[keys - 1 - distance]),
      reach: slopes.map((_, h) => reachOf(weightsOf(bias(h), distance, 0))),
    };
  },

  claim: ({weights}) => weights[0] < 0.01,

  say({distance, weights}, {lead}, language) {
    const most = weights.filter(weight => weight > 0.5).length;
    const isTiny = weights[0] < 0.001, share = isTiny ? '0.1' : percent(weights[0]);
    return say(language,
               `Without the penalty, the key ${distance} ${distance === 1 ? 'token' : 'tokens'} ` +
               `back scores ${lead} more than each other key. The steepest head gives it ` +
               `${isTiny ? 'less than ' : ''}${share} % of its weight; ${most} of ` +
               `${weights.length} heads give it more than half.`,
               `不计惩罚时，距离 ${distance} 处的键比其他每个键的分数高 ${lead}。最陡的头给它` +
               `${isTiny ? '不到' : ''} ${share} % 的权重；${weights.length} 个头中有 ${most} 个给它一半以上` +
               '的权重。');
  },

  draw(view, {slopes, weights, reach}, _, language) {
    view.bars('weights', {
      bars: slopes.map((slope, h) => ({
        name: say(language, `slope 1/${Math.round(1 / slope * 100) / 100}`,
                  `斜率 1/${Math.round(1 / slope * 100) / 100}`),
        value: Math.round(1e4 * weights[h]) / 100,
      })),
      unit: ' %', range: [0, 100], span: 'half',
      title: say(language, 'Weight of the matching key', '匹配键的权重'),
    });
    view.bars('reach', {
      bars: slopes.map((slope, h) => ({
        name: say(language, `head ${h + 1}`, `头 ${h + 1}`), value: reach[h], colour: 'b'})),
      span: 'half',
      title: say(language, 'Nearest keys with 99 % of the weight if all scores are equal',
                 '分数全部相等时，占 99 % 权重的最近键的个数'),
    });
  },

  numbers(gnomon) {
    const {reach} = this.compute(gnomon, {exponent: 8, lead: 10, heads: 8});
    return {near: String(reach[0]), far: String(reach.at(-1))};
  },
};
