// The two nearest rows of a table, for bases whose wavelengths are shorter than the text.
import {format, hundredths, percent} from './shared/format.js';
import {pairFrequencies, range, rowOf, tableOf} from './shared/sinusoid.js';

const positions = 4096, buckets = 160;

// Multiples of half a turn in the text.
const linearFrequencies = width => range(width / 2, 1).map(j => Math.PI * j / positions);

function rowsOf(gnomon, at, {base, width, spacing}) {
  return spacing === 'linear'
    ? tableOf(gnomon, at, linearFrequencies(width).flatMap(one => [one, one]))
    : gnomon.sinusoidal(at, width, {base});
}

/**
 * Distances of row 0 to rows 1 .. count, relative to the norm. The distance of two rows depends on
 * the distance of their positions alone, so these are the distances of all pairs.
 */
function distances(gnomon, setting, count) {
  const {width} = setting, first = rowsOf(gnomon, [0], setting), norm = Math.hypot(...first);
  const all = new Float64Array(count), piece = 4096;
  for (let begin = 1; begin <= count; begin += piece) {
    const rows = Math.min(piece, count + 1 - begin);
    const table = rowsOf(gnomon, range(rows, begin), setting);
    for (let t = 0; t < rows; ++t) {
      const row = rowOf(table, t, width);
      let sum = 0;
      for (let c = 0; c < width; ++c) sum += (row[c] - first[c]) ** 2;
      all[begin - 1 + t] = Math.sqrt(sum) / norm;
    }
  }
  return all;
}

// The index of the least value.
const nearestOf = all => all.reduce((best, one, i) => one < all[best] ? i : best, 0);

export default {
  name: 'unique-base',
  data: [],
  controls: [
    {name: 'base', type: 'choice', value: 2, label: {en: 'Base', zh: '底数'},
     options: [2, 10, 100, 10000, 500000].map(
         value => ({value, label: {en: String(value), zh: String(value)}}))},
    {name: 'width', type: 'choice', value: 64, label: {en: 'Width C', zh: '宽度 C'},
     options: [2, 8, 64].map(value => ({value, label: {en: String(value), zh: String(value)}}))},
    {name: 'spacing', type: 'choice', value: 'geometric', label: {en: 'Frequencies', zh: '频率'},
     options: [
       {value: 'geometric', label: {en: 'by the base', zh: '由底数决定'}},
       {value: 'linear', label: {en: 'multiples of half a turn in the text',
                                 zh: '全文半圈的整数倍'}},
     ]},
  ],
  breaks: {width: 2},

  compute(gnomon, state) {
    const {base, width, spacing} = state;
    const all = distances(gnomon, state, positions - 1), nearest = nearestOf(all);
    const frequencies = spacing === 'linear' ? linearFrequencies(width)
                                             : pairFrequencies(width, base);
    // The least and the greatest distance in ranges of positions, at equal steps of the logarithm.
    const edges = [...new Set(range(buckets + 1).map(
        i => Math.round((positions - 1) ** (i / buckets))))];
    const parts = edges.map((edge, i) => all.subarray(edge - 1, (edges[i + 1] ?? positions) - 1));
    return {x: edges, low: parts.map(part => Math.min(...part)),
            high: parts.map(part => Math.max(...part)), neighbours: all[0],
            nearest: nearest + 1, least: all[nearest],
            longest: 2 * Math.PI / Math.min(...frequencies)};
  },

  claim: ({nearest}) => nearest === 1,

  say({nearest, least, neighbours, longest}, state, language) {
    const en = language === 'en', wave = format(longest), count = positions;
    return nearest === 1
      ? (en ? `The longest wavelength is ${wave} positions. Of ${count} rows, the two nearest ` +
              `are neighbours, and they differ by ${percent(least)} of the norm.`
            : `最长波长为 ${wave} 个位置。${count} 行中最接近的两行是相邻行，相差范数的 ${percent(least)}。`)
      : (en ? `The longest wavelength is ${wave} positions. Of ${count} rows, the two nearest ` +
              `are ${nearest} positions apart. They differ by ${percent(least)} of the norm, and ` +
              `neighbours by ${percent(neighbours)}.`
            : `最长波长为 ${wave} 个位置。${count} 行中最接近的两行相距 ${nearest} 个位置，` +
              `相差范数的 ${percent(least)}，而相邻行相差 ${percent(neighbours)}。`);
  },

  draw(view, {x, low, high, neighbours, nearest, longest}, {width}, language) {
    const en = language === 'en';
    const shown = [{y: neighbours, label: en ? 'neighbours' : '相邻行'}];
    if (longest < positions) shown.push({x: longest, label: en ? 'longest wavelength' : '最长波长'});
    if (nearest > 1) shown.push({x: nearest, label: en ? 'nearest' : '最近'});
    view.lines('distances', {
      title: en ? `Distance of two rows of width ${width}, by the distance of their positions`
                : `宽度 ${width} 时两行的距离，随位置距离变化`,
      xTitle: en ? 'distance of the positions' : '位置距离',
      yTitle: en ? 'distance / norm' : '距离 / 范数', xLog: true, yRange: [0, 2.05],
      series: [{name: en ? 'least and greatest' : '最小值与最大值', x, y: low, low, high}],
      marks: shown, height: 300,
    });
  },

  numbers(gnomon) {
    const count = 131071, width = 64;
    const far = base => distances(gnomon, {base, width}, count);
    const short = far(2), usual = far(10000);
    const pair = distances(gnomon, {base: 10000, width: 2}, positions - 1);
    const linear = distances(gnomon, {width, spacing: 'linear'}, positions - 1);
    const least = all => hundredths(all[nearestOf(all)]);
    return {longest2: format(2 * Math.PI / pairFrequencies(width, 2).at(-1), 2),
            rows: String(count + 1), least2: least(short), nearest2: String(nearestOf(short) + 1),
            least: least(usual), nearest: String(nearestOf(usual) + 1),
            pair: String(nearestOf(pair) + 1), leastPair: least(pair), linear: least(linear)};
  },
};
