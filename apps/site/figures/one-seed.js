// Figure 7.3: the difference of two encodings on each of three seeds, and its interval.
import {named, options, title} from './shared/lab.js';

const names = ['t5', 'rotary', 'alibi', 'sinusoidal', 'learned', 'none'];
const quantile = 4.303;  // Student's t, two degrees of freedom, 97.5 %

function compare(encodings, first, second) {
  const a = named(encodings, first).bits, b = named(encodings, second).bits;
  const differences = a.map((bits, i) => Math.round((bits - b[i]) * 1000) / 1000);
  const mean = differences.reduce((sum, one) => sum + one, 0) / differences.length;
  const variance = differences.reduce((sum, one) => sum + (one - mean) ** 2, 0) /
    (differences.length - 1);
  return {a, b, differences, mean, half: quantile * Math.sqrt(variance / differences.length)};
}

const signed = value => `${value < 0 ? '−' : value > 0 ? '+' : ''}${Math.abs(value).toFixed(3)}`;

export default {
  name: 'one-seed',
  data: ['lab'],
  controls: [
    {name: 'first', type: 'choice', options: options(names), value: 'sinusoidal',
     label: {en: 'First encoding', zh: '第一种编码'}},
    {name: 'second', type: 'choice', options: options(names), value: 'alibi',
     label: {en: 'Second encoding', zh: '第二种编码'}},
    {name: 'seed', type: 'range', min: 1, max: 3, step: 1, value: 1,
     label: {en: 'The seed you ran', zh: '你运行的种子'}},
  ],
  breaks: {first: 't5'},

  compute(gnomon, {first, second}, data) {
    return compare(data.lab.single.encodings, first, second);
  },

  claim({differences}) {
    return differences.some(one => one < 0) && differences.some(one => one > 0);
  },

  say({differences, mean, half}, {first, second, seed}, language) {
    const one = differences[seed - 1];
    const better = one < 0 ? first : second;
    const open = Math.abs(mean) <= half;
    if (language === 'zh') {
      const alone = one === 0 ? `只看种子 ${seed}：两者相等。`
        : `只看种子 ${seed}：${title(better, 'zh')} 较好，差 ${Math.abs(one).toFixed(3)} 比特。`;
      return `${alone}三个种子：${signed(mean)} ± ${half.toFixed(3)}，` +
        (open ? '区间包含 0，不能断定哪个较好。' : '区间不包含 0。');
    }
    const alone = one === 0 ? `Seed ${seed} alone: both are equal.`
      : `Seed ${seed} alone: ${title(better, 'en')} is better by ${Math.abs(one).toFixed(3)} bits.`;
    return `${alone} Three seeds: ${signed(mean)} ± ${half.toFixed(3)}; ` +
      (open ? 'the interval contains 0: not decided.' : 'the interval does not contain 0.');
  },

  draw(view, {a, b, differences, mean, half}, {first, second, seed}, language) {
    const zh = language === 'zh';
    view.lines('losses', {
      title: zh ? '每个种子的损失' : 'Loss of each seed', span: 'half', height: 200,
      xTitle: zh ? '种子' : 'seed', yTitle: zh ? '比特/字节' : 'bits per byte', xRange: [1, 3],
      series: [{name: title(first, language), x: [1, 2, 3], y: a, points: true},
               {name: title(second, language), x: [1, 2, 3], y: b, points: true, dashed: true}],
      marks: [{x: seed, label: zh ? '你的种子' : 'your seed'}],
    });
    view.bars('differences', {
      title: zh ? '差值：第一种减第二种（比特/字节）' : 'Difference: first minus second, in bits per byte',
      span: 'half',
      bars: [
        ...differences.map((value, i) => ({name: zh ? `种子 ${i + 1}` : `seed ${i + 1}`, value})),
        {name: zh ? '三个种子的均值' : 'mean of three', value: mean, low: mean - half,
         high: mean + half},
      ],
    });
  },

  numbers(gnomon, data) {
    const {encodings} = data.lab.single;
    const close = compare(encodings, 'sinusoidal', 'alibi');
    const far = compare(encodings, 't5', 'alibi');
    return {
      first: signed(close.differences[0]), second: signed(close.differences[1]),
      mean: signed(close.mean), half: close.half.toFixed(3),
      far: signed(far.mean), farhalf: far.half.toFixed(3),
    };
  },
};
