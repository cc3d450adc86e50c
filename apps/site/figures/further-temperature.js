// Chapter 6: the weight of one matching key among more and more keys.
import {number} from '../web/text.js';

const size = 8, trained = 128, lengths = [128, 256, 512, 1024, 2048];

// YaRN's factor on cos and sin at a factor of the context, as the library reads it from a config.
function yarnScale(gnomon, factor) {
  const config = {
    model_type: 'llama', hidden_size: 64, num_attention_heads: 1, num_hidden_layers: 1,
    max_position_embeddings: factor * trained,
    rope_scaling: {rope_type: 'yarn', factor, original_max_position_embeddings: trained},
  };
  return gnomon.model(config).describe().groups[0].table_scale;
}

// The factor on the scores at a length.
function scoreScale(gnomon, temperature, length) {
  if (temperature === 'yarn') return yarnScale(gnomon, length / trained) ** 2;
  if (temperature === 'log') return Math.log(length) / Math.log(trained);
  return 1;
}

export default {
  name: 'further-temperature',
  data: [],
  controls: [
    {name: 'temperature', type: 'choice', value: 'none', options: [
      {value: 'none', label: {en: 'none', zh: '不变'}},
      {value: 'yarn', label: {en: 'the attention factor of YaRN', zh: 'YaRN 的注意力因子'}},
      {value: 'log', label: {en: 'log(length) / log(trained length)', zh: 'log(长度) / log(训练长度)'}},
    ], label: {en: 'Factor on the scores', zh: '分数的系数'}},
    {name: 'advantage', type: 'range', min: 3, max: 9, step: 0.5, value: 6,
     label: {en: 'Score of the matching key', zh: '匹配键的分数'}},
  ],
  breaks: {temperature: 'log'},

  compute(gnomon, {temperature, advantage}) {
    // Scores of the other keys: independent, mean 0, deviation 1. The last key matches.
    const random = gnomon.normal(size * lengths.at(-1), 1), none = gnomon.encoding({kind: 'none'});
    const query = new Float32Array(size).fill(1);
    const match = new Float32Array(size).fill(advantage / Math.sqrt(size));
    const factors = lengths.map(length => scoreScale(gnomon, temperature, length));
    const weights = lengths.map((length, i) => {
      const keys = random.slice(0, length * size);
      keys.set(match, (length - 1) * size);
      const plan = none.plan({keys: length, queries: 1});
      return plan.weights(query.map(v => factors[i] * v), keys, {heads: 1})[length - 1];
    });
    return {weights, factors};
  },

  claim: ({weights}) => weights.at(-1) < weights[0] / 2,

  say({weights, factors}, _, language) {
    const [first, last] = [weights[0], weights.at(-1)].map(w => number(100 * w, 2));
    const factor = number(factors.at(-1)), longest = lengths.at(-1);
    return language === 'zh'
        ? `匹配键在 ${trained} 个键中得到 ${first} % 的权重，在 ${longest} 个键中得到 ${last} %` +
          `（分数乘以 ${factor}）。`
        : `The matching key has ${first} % of the weight among ${trained} keys and ${last} % ` +
          `among ${longest} (scores times ${factor}).`;
  },

  draw(view, {weights}, _, language) {
    const zh = language === 'zh';
    view.lines('weight', {
      title: zh ? '匹配键的权重与键的数量' : 'Weight of the matching key, by number of keys',
      xLog: true, yRange: [0, 1], height: 260, xTitle: zh ? '键的数量' : 'keys',
      yTitle: zh ? '权重' : 'weight', series: [{x: lengths, y: weights, points: true}],
      marks: [{x: trained, label: zh ? '训练长度' : 'trained length'}],
    });
  },

  numbers(gnomon) {
    const at = temperature => this.compute(gnomon, {temperature, advantage: 6});
    const percent = weight => number(100 * weight, 2);
    const none = at('none'), yarn = at('yarn');
    return {
      first: percent(none.weights[0]), last: percent(none.weights.at(-1)),
      yarn: percent(yarn.weights.at(-1)), yarnFactor: number(yarn.factors.at(-1)),
    };
  },
};
