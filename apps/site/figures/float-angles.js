// Figure 8.2: angles computed in float32 or bfloat16, as engines do, beside exact ones.
import {bfloat16} from './shared/rounding.js';

const dim = 128, base = 10000;
const frequencies = Array.from({length: dim / 2}, (_, i) => base ** (-2 * i / dim));

const rounding = {float32: Math.fround, bfloat16, exact: value => value};

/** cos and sin of [positions, frequencies] if the engine rounds to a type. */
function cosSin(gnomon, positions, type) {
  if (type === 'exact') return gnomon.cosSin(positions, frequencies);
  const round = rounding[type], count = positions.length * frequencies.length;
  const cos = new Float32Array(count), sin = new Float32Array(count);
  let at = 0;
  for (const position of positions) {
    for (const frequency of frequencies) {
      const angle = round(round(position) * round(frequency));
      cos[at] = round(Math.cos(angle));
      sin[at++] = round(Math.sin(angle));
    }
  }
  return {cos, sin};
}

/** Scores of equal contents at distances 0 to 63 before the position. */
function byDistance({cos, sin}) {
  const n = frequencies.length;
  return Array.from({length: cos.length / n}, (_, distance) => {
    let sum = 0;
    for (let i = 0; i < n; ++i) {
      sum += cos[i] * cos[distance * n + i] + sin[i] * sin[distance * n + i];
    }
    return sum / n;
  });
}

const figure = {
  name: 'float-angles',
  data: [],
  controls: [
    {name: 'position', type: 'range', min: 63, max: 131071, step: 1, value: 131071,
     label: {en: 'Position of the query', zh: '查询的位置'}},
    {name: 'type', type: 'choice', value: 'float32',
     options: [{value: 'float32', label: {en: 'float32', zh: 'float32'}},
               {value: 'bfloat16', label: {en: 'bfloat16', zh: 'bfloat16'}},
               {value: 'exact', label: {en: 'exact, rounded once', zh: '精确，只舍入一次'}}],
     label: {en: 'Angles of the engine', zh: '引擎的角度'}},
  ],
  breaks: {type: 'exact'},

  compute(gnomon, {position, type}) {
    const positions = Array.from({length: 64}, (_, distance) => position - distance);
    const exact = gnomon.cosSin(positions, frequencies);
    const engine = cosSin(gnomon, positions, type);
    // In double, the angle is within 1e-10 of position x frequency.
    const errors = frequencies.map((frequency, i) => Math.max(
      Math.abs(engine.cos[i] - Math.cos(position * frequency)),
      Math.abs(engine.sin[i] - Math.sin(position * frequency))));
    const right = byDistance(exact), scores = byDistance(engine);
    const range = Math.max(...right) - Math.min(...right);
    const change = Math.max(...scores.map((score, i) => Math.abs(score - right[i]))) / range;
    return {errors, worst: Math.max(...errors), right, scores, change,
            seen: rounding[type](position)};
  },

  claim({worst}) {
    return worst > 1e-3;
  },

  say({worst, change, seen}, {position, type}, language) {
    const zh = language === 'zh';
    const size = value => value.toExponential(1).replace('-', '−');
    const stored = seen === position ? ''
      : zh ? `该类型把位置 ${position} 存成 ${seen}。`
        : ` This type stores position ${position} as ${seen}.`;
    return zh
      ? `${type}，位置 ${position}：cos 与 sin 最多差 ${size(worst)}；分数最多改变其变化范围的 ` +
        `${(100 * change).toPrecision(2)} %。${stored}`
      : `${type}, position ${position}: cos and sin are off by up to ${size(worst)}, and scores ` +
        `by up to ${(100 * change).toPrecision(2)} % of their range.${stored}`;
  },

  draw(view, {errors, right, scores}, {type}, language) {
    const zh = language === 'zh';
    const least = 1e-9;  // a logarithmic axis has no 0
    view.lines('errors', {
      title: zh ? '每一对元素的 cos 与 sin 的误差' : 'Error of cos and sin, by pair of elements',
      xTitle: zh ? '对（0 最快）' : 'pair (0 is the fastest)', yTitle: zh ? '误差' : 'error',
      yLog: true, yRange: [least, 4], span: 'half',
      series: [{name: type, x: errors.map((_, i) => i),
                y: errors.map(error => Math.max(error, least))}],
    });
    view.lines('scores', {
      title: zh ? '内容相同时的分数' : 'Score of equal contents',
      xTitle: zh ? '距离' : 'distance', yTitle: zh ? '分数' : 'score', span: 'half',
      series: [{name: zh ? '精确' : 'exact', x: right.map((_, i) => i), y: right},
               {name: type, x: scores.map((_, i) => i), y: scores, dashed: true}],
    });
  },

  numbers(gnomon) {
    const worst = (position, type) =>
      figure.compute(gnomon, {position, type}).worst.toFixed(4);
    const change = (position, type) =>
      (100 * figure.compute(gnomon, {position, type}).change).toFixed(0);
    return {worst: worst(131071, 'float32'),
            near: figure.compute(gnomon, {position: 1000, type: 'float32'}).worst.toFixed(6),
            stored: String(bfloat16(131071)), bfloat16: change(131071, 'bfloat16'),
            thousand: String(bfloat16(1001))};
  },
};

export default figure;
