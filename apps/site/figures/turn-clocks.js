// Chapter 5: all pairs of a head at once, as hands of clocks.
import {number} from '../web/text.js';
import {steps} from './shared/vectors.js';

const pairs = 8, farthest = 256;

function frequenciesOf(gnomon, base) {
  if (base === '1') return new Float64Array(pairs).fill(1);
  return gnomon.encoding({kind: 'rotary', rotary_dim: 2 * pairs, pairing: 'halves',
                          base: Number(base)}).frequencies();
}

export default {
  name: 'turn-clocks',
  data: [],
  controls: [
    {name: 'position', type: 'range', min: 0, max: 512, step: 1, value: 40,
     label: {en: 'Position', zh: '位置'}},
    {name: 'distance', type: 'range', min: 1, max: farthest, step: 1, value: 6,
     label: {en: 'Distance to another position', zh: '到另一位置的距离'}},
    {name: 'base', type: 'choice', value: '10000', options: [
      {value: '10000', label: {en: '10000', zh: '10000'}},
      {value: '100', label: {en: '100', zh: '100'}},
      {value: '1', label: {en: '1 (all pairs equally fast)', zh: '1（各对速度相同）'}},
    ], label: {en: 'Base', zh: '底数'}},
  ],
  breaks: {base: '1'},

  compute(gnomon, {position, distance, base}) {
    const frequencies = frequenciesOf(gnomon, base);
    const {cos, sin} = gnomon.cosSin([position, position + distance], frequencies);
    const away = gnomon.cosSin(steps(farthest + 1), frequencies).cos;
    const difference = new Float64Array(farthest + 1);
    for (let d = 0; d <= farthest; ++d) {
      let sum = 0;
      for (let i = 0; i < pairs; ++i) sum += 2 - 2 * away[d * pairs + i];
      difference[d] = Math.sqrt(Math.max(sum, 0));
    }
    let nearest = 1;
    for (let d = 2; d <= farthest; ++d) if (difference[d] < difference[nearest]) nearest = d;
    const turns = Float64Array.from(frequencies, f => 2 * Math.PI / f);
    return {cos, sin, difference, nearest, turns};
  },

  claim: ({nearest}) => nearest === 1,

  say({difference, nearest}, {position, distance}, language) {
    const here = number(difference[distance]), least = number(difference[nearest]);
    if (language === 'zh')
      return `位置 ${position} 与 ${position + distance} 的指针相差 ${here}。在距离 1 到 ${farthest} 中，` +
             `最相近的是距离 ${nearest}（相差 ${least}）` +
             (nearest === 1 ? '，即相邻位置。' : '：远处的位置看起来比相邻位置还近。');
    return `The hands of positions ${position} and ${position + distance} differ by ${here}. Of ` +
           `the distances 1 to ${farthest} the least different is ${nearest} (${least})` +
           (nearest === 1 ? ', the neighbour.'
                          : ': a far position looks nearer than the neighbour.');
  },

  draw(view, {cos, sin, difference, nearest, turns}, {position, distance}, language) {
    const zh = language === 'zh', radius = 34;
    const other = position + distance;
    view.drawing('clocks', {width: 400, height: 224, title: zh
        ? `八对元素：位置 ${position}（实线）和 ${other}（虚线）`
        : `Eight pairs at position ${position} (solid) and ${other} (dashed)`}, pen => {
      for (let i = 0; i < pairs; ++i) {
        const x = 50 + 100 * (i % 4), y = 42 + 112 * Math.floor(i / 4);
        pen.circle(x, y, radius, {colour: 'muted', width: 1});
        const hand = (row, style) => pen.line(x, y, x + radius * cos[row * pairs + i],
                                              y - radius * sin[row * pairs + i], style);
        hand(1, {colour: 'b', width: 3, dashed: true});
        hand(0, {colour: 'a', width: 3});
        const wavelength = number(turns[i]);
        pen.text(x, y + radius + 16, zh ? `${wavelength} 位置/圈` : `1 turn in ${wavelength}`,
                 {size: 11, colour: 'muted'});
      }
    });
    view.lines('difference', {
      height: 210, title: zh ? '指针之差与距离' : 'Difference of the hands, by distance',
      xTitle: zh ? '距离' : 'distance', yTitle: zh ? '差' : 'difference',
      series: [{x: steps(farthest + 1), y: difference}],
      marks: [{x: distance, label: zh ? '所选' : 'chosen'},
              {y: difference[nearest],
               label: zh ? `最小：距离 ${nearest}` : `least: distance ${nearest}`}],
    });
  },

  numbers(gnomon) {
    const plain = this.compute(gnomon, {position: 0, distance: 1, base: '10000'});
    const equal = this.compute(gnomon, {position: 0, distance: 1, base: '1'});
    return {
      fastest: number(plain.turns[0]), slowest: number(plain.turns[pairs - 1], 5),
      neighbour: number(plain.difference[1]), nearest: String(plain.nearest),
      equalNearest: String(equal.nearest), equal: number(equal.difference[equal.nearest], 2),
      equalNeighbour: number(equal.difference[1]),
    };
  },
};
