// Chapter 6: what a scaling does to a head that looks at near tokens.
import {number} from '../web/text.js';
import {choices, scaledRotary} from './shared/scalings.js';
import {largest, repeated, steps} from './shared/vectors.js';

const size = 64, trained = 4096, shown = 64, sharpness = 4, heads = 8;

export default {
  name: 'further-near',
  data: [],
  controls: [
    {name: 'method', type: 'choice', value: 'linear',
     options: choices(['linear', 'ntk', 'yarn', 'llama3']),
     label: {en: 'Scaling', zh: '缩放方法'}},
    {name: 'factor', type: 'range', min: 1, max: 32, step: 1, value: 8,
     label: {en: 'Factor', zh: '倍数'}},
    {name: 'back', type: 'range', min: 1, max: 4, step: 1, value: 1,
     label: {en: 'The head was trained to look back by', zh: '该头训练成看向前面第几个词元'},
     unit: {en: 'tokens', zh: '个词元'}},
  ],
  breaks: {method: 'yarn'},

  compute(gnomon, {method, factor, back}) {
    // Each head has a random key for all tokens, and a query that looks back in training.
    const keys = gnomon.normal(heads * size, 1);
    const queries = gnomon.rotate(keys.map(v => sharpness * v), [back],
                                  {heads, rotaryDim: size, pairing: 'halves', inverse: true});
    // The mean weights of all heads, nearest token first.
    const mean = name => {
      const rotary = scaledRotary(gnomon, name,
                                  {rotaryDim: size, trained, length: factor * trained});
      const weights = rotary.plan({keys: shown, queries: 1})
                          .weights(queries, repeated(keys, shown), {heads});
      const sum = new Float64Array(shown);
      weights.forEach((w, i) => { sum[shown - 1 - i % shown] += w / heads; });
      return sum;
    };
    const before = mean('none'), after = mean(method);
    return {before, after, was: largest(before), is: largest(after)};
  },

  claim: ({was, is}) => is !== was,

  say({before, after, was, is}, {back}, language) {
    const [old, present] = [before, after].map(w => number(100 * w[back], 2));
    if (language === 'zh')
      return `训练时，前面第 ${back} 个词元得到 ${old} % 的权重；缩放后为 ${present} %。` +
             (is === was ? '权重最大的仍是同一个词元。' : `权重最大的词元变为前面第 ${is} 个。`);
    return `In training the token ${back} back had ${old} % of the weight, now ${present} %. ` +
           (is === was ? 'It still has the largest weight.'
                       : `The largest weight is now ${is} back.`);
  },

  draw(view, {before, after}, _, language) {
    const zh = language === 'zh', x = steps(33);
    view.lines('weights', {
      title: zh ? '注意力权重与距离（8 个头的平均）' : 'Attention weight by distance, mean of 8 heads',
      height: 280, xTitle: zh ? '向前的距离' : 'tokens back', yTitle: zh ? '权重' : 'weight',
      series: [
        {name: zh ? '训练时' : 'as trained', x, y: before.slice(0, 33), dashed: true},
        {name: zh ? '缩放后' : 'scaled', x, y: after.slice(0, 33), points: true},
      ],
    });
  },

  numbers(gnomon) {
    const at = method => this.compute(gnomon, {method, factor: 8, back: 1});
    const linear = at('linear'), yarn = at('yarn');
    return {
      before: number(100 * linear.before[1], 2), linear: number(100 * linear.after[1], 2),
      is: String(linear.is), yarn: number(100 * yarn.after[1], 2),
    };
  },
};
