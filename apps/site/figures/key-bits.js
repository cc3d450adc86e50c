// Figure 8.4: errors of scores if rotated keys are stored in 16 or 8 bits.
import {bfloat16, float16} from './shared/rounding.js';

const tokens = 48, dim = 64, large = 20;  // token 20 has large elements

const greatest = (keys, begin, end) => {
  let most = 0;
  for (let i = begin; i < end; ++i) most = Math.max(most, Math.abs(keys[i]));
  return most;
};

/** The keys as an engine reads them back. */
function stored(keys, type) {
  if (type === 'bfloat16') return keys.map(bfloat16);
  if (type === 'float16') return keys.map(float16);
  const out = new Float32Array(keys.length), all = greatest(keys, 0, keys.length);
  for (let t = 0; t < tokens; ++t) {
    const begin = t * dim, end = begin + dim;
    const scale = (type === 'one-scale' ? all : greatest(keys, begin, end)) / 127;
    for (let i = begin; i < end; ++i) out[i] = scale * Math.round(keys[i] / scale);
  }
  return out;
}

const figure = {
  name: 'key-bits',
  data: [],
  controls: [
    {name: 'type', type: 'choice', value: 'int8',
     options: [
       {value: 'float16', label: {en: '16 bits, float16', zh: '16 位 float16'}},
       {value: 'bfloat16', label: {en: '16 bits, bfloat16', zh: '16 位 bfloat16'}},
       {value: 'int8', label: {en: '8 bits, a scale for each token', zh: '8 位，每个词元一个比例'}},
       {value: 'one-scale', label: {en: '8 bits, one scale for all', zh: '8 位，全部共用一个比例'}},
     ],
     label: {en: 'Stored as', zh: '存储格式'}},
    {name: 'factor', type: 'range', min: 1, max: 64, step: 1, value: 32,
     label: {en: 'Size of the large token', zh: '大词元的倍数'}},
  ],
  breaks: {type: 'one-scale'},

  compute(gnomon, {type, factor}) {
    const contents = gnomon.normal(tokens * dim, 11);
    for (let d = 0; d < dim; ++d) contents[large * dim + d] *= factor;
    const positions = Array.from({length: tokens}, (_, t) => t);
    const options = {heads: 1, rotaryDim: dim, pairing: 'halves'};
    const keys = gnomon.rotate(contents, positions, options);
    const q = gnomon.rotate(gnomon.normal(dim, 12), [tokens], options);
    const read = stored(keys, type);
    const length = Math.hypot(...q), errors = [], bounds = [];
    for (let t = 0; t < tokens; ++t) {
      let error = 0;
      for (let d = 0; d < dim; ++d) error += q[d] * (read[t * dim + d] - keys[t * dim + d]);
      errors.push(Math.abs(error) / Math.sqrt(dim));
      bounds.push(length * greatest(keys, t * dim, (t + 1) * dim) / 254);
    }
    const others = errors.filter((_, t) => t !== large);
    return {errors, bounds, worst: Math.max(...others),
            mean: others.reduce((sum, one) => sum + one, 0) / others.length};
  },

  claim({errors, bounds}) {
    return errors.every((error, t) => error <= bounds[t] * 1.0001);
  },

  say({worst, mean, errors, bounds}, {factor}, language) {
    const inside = errors.every((error, t) => error <= bounds[t] * 1.0001);
    if (language === 'zh') {
      return `一个词元的元素是其他词元的 ${factor} 倍。其他 ${tokens - 1} 个键的分数误差：` +
        `平均 ${mean.toPrecision(2)}，最大 ${worst.toPrecision(2)}；` +
        (inside ? '都在各自的界之内。' : '超出了各自比例给出的界。');
    }
    return `One token is ${factor} times as large as the others. Scores of the other ` +
      `${tokens - 1} keys are off by ${mean.toPrecision(2)} on average, ${worst.toPrecision(2)} ` +
      `at most; ${inside ? 'all errors are within the bound of the key'
        : 'some errors exceed the bound of a scale of their own'}.`;
  },

  draw(view, {errors, bounds}, state, language) {
    const zh = language === 'zh';
    const x = errors.map((_, t) => t), least = 1e-5;
    view.lines('errors', {
      title: zh ? '分数的误差' : 'Error of the score',
      xTitle: zh ? '键' : 'key', yTitle: zh ? '误差' : 'error', yLog: true,
      series: [
        {name: zh ? '误差' : 'error', x, y: errors.map(one => Math.max(one, least)), points: true},
        {name: zh ? '每个词元一个比例时的界' : 'bound with a scale for each token', x, y: bounds,
         dashed: true},
      ],
      marks: [{x: large, label: zh ? '大词元' : 'large token'}],
    });
  },

  numbers(gnomon) {
    const mean = type => figure.compute(gnomon, {type, factor: 32}).mean.toPrecision(2);
    return {int8: mean('int8'), one: mean('one-scale'), bfloat16: mean('bfloat16')};
  },
};

export default figure;
