// Chapter 5: rotary on a part of a head.
import {number} from '../web/text.js';
import {dot, repeated, steps} from './shared/vectors.js';

const size = 64, count = 257, distances = steps(count, 2);

export default {
  name: 'turn-partial',
  data: [],
  controls: [
    {name: 'rotated', type: 'range', min: 0, max: size, step: 8, value: 16,
     label: {en: `Elements that rotate, of ${size}`, zh: `参与旋转的元素（共 ${size} 个）`}},
    {name: 'seed', type: 'range', min: 1, max: 20, step: 1, value: 1,
     label: {en: 'Another word', zh: '换一个词'}},
  ],
  breaks: {rotated: size},

  compute(gnomon, {rotated, seed}) {
    // A query that equals the key: the same word at two places.
    const word = gnomon.normal(size, seed);
    let turned = repeated(word, count);
    if (rotated)
      turned = gnomon.rotate(turned, distances, {heads: 1, rotaryDim: rotated, pairing: 'halves'});
    const unit = dot(word, word);
    const score = Float64Array.from(distances, (_, t) => dot(turned, word, size, t * size) / unit);
    const rest = dot(word, word, size - rotated, rotated, rotated) / unit;
    return {score, rest, least: Math.min(...score), range: 1 - Math.min(...score)};
  },

  claim: ({least}) => least > 0.5,

  say({rest, least}, {rotated}, language) {
    if (language === 'zh')
      return `${size} 个元素中有 ${rotated} 个旋转。同一个词在所有距离上的最低分数是距离 0 处的 ` +
             `${number(100 * least, 2)} %，其中不旋转的元素始终占 ${number(100 * rest, 2)} %。`;
    return `${rotated} of ${size} elements rotate. The lowest score of a word with itself is ` +
           `${number(100 * least, 2)} % of that at distance 0; the elements that do not rotate ` +
           `give ${number(100 * rest, 2)} % at every distance.`;
  },

  draw(view, {score, rest}, _, language) {
    const zh = language === 'zh';
    view.lines('score', {
      title: zh ? '同一个词在两个位置上的分数' : 'Score of a word with itself, by distance',
      xTitle: zh ? '距离' : 'distance',
      yTitle: zh ? '分数（距离 0 处为 1）' : 'score, 1 at distance 0',
      height: 280, yRange: [-0.6, 1.1],
      series: [
        {name: zh ? '整个头' : 'whole head', x: distances, y: score},
        {name: zh ? '不旋转的元素' : 'elements that do not rotate', x: distances,
         y: new Float64Array(count).fill(rest), dashed: true},
      ],
      marks: [{y: 0.5, label: zh ? '一半' : 'half'}],
    });
  },

  numbers(gnomon) {
    const least = rotated => number(this.compute(gnomon, {rotated, seed: 1}).least, 2);
    return {quarter: least(16), half: least(32), all: least(64)};
  },
};
