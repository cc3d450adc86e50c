// Chapter 5: one pair of elements in the plane.
import {number} from '../web/text.js';
import {dot, repeated, steps} from './shared/vectors.js';

const plainQuery = [1, 0.3], plainKey = [0.8, 0.7];
const last = 20;
const size = Math.hypot(...plainQuery) * Math.hypot(...plainKey);

// The position whose turn brings a vector to an angle, the nearest one on the range.
function positionOf(angle, vector, frequency) {
  const turn = (angle - Math.atan2(vector[1], vector[0]) + 4 * Math.PI) % (2 * Math.PI);
  const position = Math.round(turn / frequency);
  if (position <= last) return position;
  return turn - last * frequency < 2 * Math.PI - turn ? last : 0;
}

export default {
  name: 'turn-pair',
  data: [],
  controls: [
    {name: 'query', type: 'range', min: 0, max: last, step: 1, value: 7,
     label: {en: 'Position of the query', zh: '查询的位置'}},
    {name: 'key', type: 'range', min: 0, max: last, step: 1, value: 3,
     label: {en: 'Position of the key', zh: '键的位置'}},
    {name: 'frequency', type: 'range', min: 0.1, max: 1, step: 0.05, value: 0.3,
     label: {en: 'Frequency', zh: '频率'}, unit: {en: 'radians per position', zh: '弧度/位置'}},
    {name: 'turned', type: 'choice', value: 'both', options: [
      {value: 'both', label: {en: 'query and key', zh: '查询和键'}},
      {value: 'query', label: {en: 'only the query', zh: '只旋转查询'}},
      {value: 'none', label: {en: 'nothing', zh: '都不旋转'}},
    ], label: {en: 'Rotated', zh: '旋转对象'}},
  ],
  breaks: {turned: 'query'},

  compute(gnomon, {query, key, frequency, turned}) {
    const rotated = (vector, positions) => gnomon.rotate(
        repeated(vector, positions.length), positions,
        {heads: 1, rotaryDim: 2, pairing: 'halves', frequencies: [frequency]});
    const shifts = steps(last + 1);
    const q = turned === 'none' ? repeated(plainQuery, last + 1)
                                : rotated(plainQuery, shifts.map(s => query + s));
    const k = turned === 'both' ? rotated(plainKey, shifts.map(s => key + s))
                                : repeated(plainKey, last + 1);
    const scores = Float64Array.from(shifts, (_, i) => dot(q, k, 2, 2 * i, 2 * i));
    const spread = Math.max(...scores) - Math.min(...scores);
    return {q: [...q.slice(0, 2)], k: [...k.slice(0, 2)], shifts, scores, spread};
  },

  claim: ({spread}, {turned}) => turned !== 'none' && spread < 1e-5 * size,

  say({scores, spread}, {query, key, turned}, language) {
    const score = number(scores[0]), change = number(spread, 2);
    const holds = spread < 1e-5 * size;
    if (turned === 'none')
      return language === 'zh' ? `没有旋转：分数始终是 ${score}，与位置无关。`
                               : `Nothing is rotated: the score is ${score} at every position.`;
    if (language === 'zh')
      return `查询在位置 ${query}，键在位置 ${key}，分数为 ${score}。` +
             `两者一起移动 1 到 ${last} 个位置，` +
             (holds ? `分数不变（误差不超过 ${change}）。` : `分数的变化可达 ${change}。`);
    return `The query is at ${query}, the key at ${key}: the score is ${score}. ` +
           `Moving both by 1 to ${last} positions ` +
           (holds ? `leaves it as it is (to ${change}).` : `changes it by up to ${change}.`);
  },

  draw(view, {q, k, shifts, scores}, {frequency, turned}, language) {
    const zh = language === 'zh', unit = 110, cx = 160, cy = 150;
    const at = ([x, y]) => [cx + unit * x, cy - unit * y];
    view.drawing('plane', {width: 320, height: 300, span: 'half',
                           title: zh ? '平面中的一对元素' : 'One pair in the plane'}, pen => {
      pen.line(20, cy, 300, cy, {colour: 'muted', width: 1});
      pen.line(cx, 10, cx, 290, {colour: 'muted', width: 1});
      for (const [vector, plain, colour, name, control] of
           [[q, plainQuery, 'a', 'q', 'query'], [k, plainKey, 'b', 'k', 'key']]) {
        pen.circle(cx, cy, unit * Math.hypot(...plain), {colour: 'muted', width: 1, opacity: 0.4});
        pen.arrow(cx, cy, ...at(plain), {colour, dashed: true, opacity: 0.45});
        pen.arrow(cx, cy, ...at(vector), {colour, width: 3});
        const [x, y] = at(vector.map(v => 1.17 * v));
        pen.text(x, y, name, {colour, size: 16, weight: 'bold'});
        if (turned === 'both' || (turned === 'query' && name === 'q'))
          pen.handle(...at(vector), {
            colour,
            label: zh ? `拖动 ${name}：改变它的位置` : `Drag ${name} to change its position`,
            move: (px, py) => ({
              [control]: positionOf(Math.atan2(cy - py, px - cx), plain, frequency)}),
          });
      }
    });
    view.lines('scores', {
      span: 'half', height: 260, yRange: [-1.1 * size, 1.1 * size],
      title: zh ? '两者一起移动时的分数' : 'The score if both move',
      xTitle: zh ? '移动的位置数' : 'positions that both move by',
      yTitle: zh ? '分数' : 'score', series: [{x: shifts, y: scores, points: true}],
    });
  },

  numbers(gnomon) {
    const at = (query, key, turned) => this.compute(gnomon, {query, key, frequency: 0.3, turned});
    return {
      score: number(at(7, 3, 'both').scores[0]),
      moved: number(at(17, 13, 'both').scores[0]),
      spread: number(at(7, 3, 'query').spread),
    };
  },
};
