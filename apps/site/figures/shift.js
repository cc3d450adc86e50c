// The row of position i + d is a rotation of the row of position i, with one matrix for all i.
import {format} from './shared/format.js';
import {leastSquares, pairFrequencies, range, rowOf, tableOf} from './shared/sinusoid.js';

const width = 8, tokens = 256, farthest = 24, tolerance = 1e-5, dragged = 1;

function tableFor(gnomon, kind) {
  if (kind === 'both') return gnomon.sinusoidal(range(tokens), width);
  const frequencies = range(width).map(c => 10000 ** (-2 * c / width));
  return tableOf(gnomon, range(tokens), frequencies, kind === 'sines' ? 'sines' : undefined);
}

export default {
  name: 'shift',
  data: [],
  controls: [
    {name: 'distance', type: 'range', min: -farthest, max: farthest, step: 1, value: 8,
     label: {en: 'Distance d', zh: '距离 d'}},
    {name: 'position', type: 'range', min: farthest, max: 100, step: 1, value: 30,
     label: {en: 'Position i', zh: '位置 i'}},
    {name: 'table', type: 'choice', value: 'both', label: {en: 'Table', zh: '编码表'},
     options: [
       {value: 'both', label: {en: 'sines and cosines in pairs', zh: '正弦与余弦成对'}},
       {value: 'sines', label: {en: 'sines only', zh: '只有正弦'}},
       {value: 'component', label: {en: 'exponent by component', zh: '按分量取指数'}},
     ]},
  ],
  breaks: {table: 'sines'},

  compute(gnomon, {distance, position, table: kind}) {
    const table = tableFor(gnomon, kind), size = (tokens - Math.abs(distance)) * width;
    const begin = table.slice(0, size), end = table.slice(table.length - size);
    const [from, to] = distance < 0 ? [end, begin] : [begin, end];
    const {matrix, residual} = leastSquares(from, to, width);
    // For column vectors: p[i + d] = R p[i].
    const rotation = matrix.map((_, i) => matrix[i % width * width + Math.floor(i / width)]);
    // The exact rotation by d has these entries in the block of each pair, and 0 elsewhere.
    const angles = pairFrequencies(width).map(one => one * distance);
    const expected = (row, column) => {
      const angle = angles[row >> 1];
      if (row >> 1 !== column >> 1) return 0;
      return row === column ? Math.cos(angle) : Math.sin(angle) * (row < column ? 1 : -1);
    };
    const error = Math.max(...rotation.map(
        (value, i) => Math.abs(value - expected(Math.floor(i / width), i % width))));
    return {rotation, residual, error, angles, here: [...rowOf(table, position, width)],
            there: [...rowOf(table, position + distance, width)], rows: size / width};
  },

  claim: ({residual}) => residual < tolerance,

  say({residual, error, rows}, {distance}, language) {
    const en = language === 'en';
    if (residual >= tolerance)
      return en
        ? `No matrix takes each row to the row ${distance} positions further: the best of all ` +
          `${width} × ${width} matrices misses an entry by ${format(residual)}.`
        : `没有矩阵能把每一行变为距离 ${distance} 处的行：所有 ${width} × ${width} 矩阵中最好的一个，` +
          `仍有分量相差 ${format(residual)}。`;
    const isRotation = error < 1e-3;
    return en
      ? `One matrix takes ${rows} rows to the rows at distance ${distance}, with an error of at ` +
        `most ${format(residual, 2)}.` +
        (isRotation ? ' It rotates each pair by its own angle, d times the frequency.' : '')
      : `同一个矩阵把 ${rows} 行变为距离 ${distance} 处的行，误差最多 ${format(residual, 2)}。` +
        (isRotation ? '它把每一对旋转各自的角度，即 d 乘以频率。' : '');
  },

  draw(view, {rotation, angles, here, there}, {distance, position, table}, language) {
    const en = language === 'en';
    view.drawing('pairs', {
      width: 360, height: 118, span: 'half',
      title: en ? `The pairs of position ${position} (open) and ${position + distance} (filled)`
                : `位置 ${position}（空心）与 ${position + distance}（实心）的四对通道`,
    }, pen => {
      const radius = 36, frequency = pairFrequencies(width)[dragged];
      angles.forEach((angle, pair) => {
        const cx = 45 + 90 * pair, cy = 46;
        const point = row => [cx + radius * row[2 * pair + 1], cy - radius * row[2 * pair]];
        pen.circle(cx, cy, radius, {colour: 'muted', width: 1.5});
        pen.line(cx, cy, ...point(here), {colour: 'muted', width: 1.5});
        pen.line(cx, cy, ...point(there), {colour: 'a', width: 2});
        pen.circle(...point(here), 5, {colour: 'text', fill: 'panel'});
        pen.circle(...point(there), 5, {colour: 'a', fill: 'a'});
        if (table === 'both')
          pen.text(cx, 100, `${format(angle * 180 / Math.PI)}°`, {size: 12, colour: 'muted'});
        if (pair !== dragged || table !== 'both') return;
        pen.handle(...point(there), {
          label: en ? 'Drag to change the distance d' : '拖动以改变距离 d',
          move(x, y) {
            const start = Math.atan2(here[2 * pair], here[2 * pair + 1]);
            const turn = Math.atan2(cy - y, x - cx) - start;
            const angle = Math.atan2(Math.sin(turn), Math.cos(turn));
            const steps = Math.round(angle / frequency);
            return {distance: Math.min(Math.max(steps, -farthest), farthest)};
          },
        });
      });
    });
    view.heatmap('rotation', {
      values: rotation, rows: width, columns: width, scale: 'diverging', range: [-1, 1],
      span: 'half', rowTitle: en ? 'channel of p[i + d]' : 'p[i + d] 的通道',
      columnTitle: en ? 'channel of p[i]' : 'p[i] 的通道',
      title: en ? 'The matrix with the least error' : '误差最小的矩阵',
    });
  },

  numbers(gnomon) {
    const at = table => this.compute(gnomon, {distance: 8, position: 30, table}).residual;
    return {both: format(at('both'), 1), sines: format(at('sines')),
            component: format(at('component'))};
  },
};
