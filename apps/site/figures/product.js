// The inner product of two rows, and the formulas that are stated for it.
import {format} from './shared/format.js';
import {dot, pairFrequencies, range, rowOf} from './shared/sinusoid.js';

const width = 128, tokens = 64, tolerance = 1e-3;
const frequencies = pairFrequencies(width);
const sum = (list, of) => list.reduce((total, one) => total + of(one), 0);

// The product at positions i and j, as each formula gives it.
const formulas = [
  {value: 'cosines', label: {en: 'sum of cos((i − j) w)', zh: 'cos((i − j) w) 之和'},
   at: (i, j) => sum(frequencies, w => Math.cos((i - j) * w))},
  {value: 'sines', label: {en: 'sum of sin(i w) sin(j w)', zh: 'sin(i w) sin(j w) 之和'},
   at: (i, j) => sum(range(width, 1), k => {
     const w = 10000 ** (-2 * k / width);
     return Math.sin(i * w) * Math.sin(j * w);
   })},
  {value: 'one', label: {en: 'one frequency, i − j and i + j', zh: '单一频率，i − j 与 i + j'},
   at: (i, j) => width / 2 * (Math.cos((i - j) / 10000) - Math.cos((i + j) / 10000))},
];

// The largest difference between the products of equal distances, relative to C / 2.
function deviationByDistance(products) {
  let most = 0;
  for (let i = 0; i < tokens; ++i)
    for (let j = 0; j < tokens; ++j) {
      const first = i >= j ? products[(i - j) * tokens] : products[j - i];
      most = Math.max(most, Math.abs(products[i * tokens + j] - first));
    }
  return most / (width / 2);
}

// Spearman's correlation of values and their indices.
function rankCorrelation(values) {
  const order = range(values.length).sort((a, b) => values[a] - values[b]);
  const n = values.length, squares = order.reduce((total, at, rank) => total + (at - rank) ** 2, 0);
  return 1 - 6 * squares / (n * (n * n - 1));
}

export default {
  name: 'product',
  data: [],
  controls: [
    {name: 'i', type: 'range', min: 0, max: tokens - 1, step: 1, value: 10,
     label: {en: 'Position i', zh: '位置 i'}},
    {name: 'j', type: 'range', min: 0, max: tokens - 1, step: 1, value: 3,
     label: {en: 'Position j', zh: '位置 j'}},
    {name: 'formula', type: 'choice', value: 'cosines', label: {en: 'Formula', zh: '公式'},
     options: formulas.map(({value, label}) => ({value, label}))},
    {name: 'back', type: 'range', min: 0, max: 16, step: 1, value: 0,
     label: {en: 'Matrix R(k) between them, k', zh: '中间的矩阵 R(k)，k'}},
  ],
  breaks: {formula: 'sines'},

  compute(gnomon, {i, j, formula, back}) {
    // p[i] · R(k) p[j] = p[i] · p[j + k].
    const table = gnomon.sinusoidal(range(tokens + back), width);
    const products = Float32Array.from({length: tokens * tokens}, (_, at) => dot(
        rowOf(table, Math.floor(at / tokens), width), rowOf(table, at % tokens + back, width)));
    const row = [...products.subarray(i * tokens, (i + 1) * tokens)];
    const {at} = formulas.find(({value}) => value === formula);
    const stated = range(tokens).map(key => at(i, key + back));
    const error = Math.max(...stated.map((one, key) => Math.abs(one - row[key])));
    return {products, row, stated, error, deviation: deviationByDistance(products),
            all: formulas.map(one => one.at(i, j + back)), best: row.indexOf(Math.max(...row))};
  },

  claim: ({error}) => error < tolerance,

  say({row, stated, error, deviation, best}, {i, j, back}, language) {
    const en = language === 'en', [one, other] = [row[j], stated[j]].map(value => format(value));
    const agreement = error < tolerance
        ? (en ? `The product at (${i}, ${j}) is ${one}, as the formula gives it.`
              : `(${i}, ${j}) 处的内积是 ${one}，与公式一致。`)
        : (en ? `The product at (${i}, ${j}) is ${one}; the formula gives ${other}.`
              : `(${i}, ${j}) 处的内积是 ${one}；公式给出 ${other}。`);
    const distance = back > 0
        ? (en ? ` With R(${back}) in between, the largest product of row ${i} is at key ${best}.`
              : `中间有 R(${back}) 时，第 ${i} 行的最大值在键 ${best} 处。`)
        : deviation < 1e-5
          ? (en ? ' Pairs at equal distance have equal products, on both sides of i.'
                : '距离相等的位置对内积相等，在 i 的两侧也一样。')
          : '';
    return agreement + distance;
  },

  draw(view, {products, row, stated, all}, {i, j, formula}, language) {
    const en = language === 'en';
    view.heatmap('products', {
      values: products, rows: tokens, columns: tokens, scale: 'sequential', span: 'half',
      marks: [{row: i, column: j}], pick: (row, column) => ({i: row, j: column}),
      title: en ? 'Inner products of all positions' : '所有位置的内积',
      rowTitle: en ? 'position i' : '位置 i', columnTitle: en ? 'position j' : '位置 j',
    });
    const name = formulas.find(({value}) => value === formula).label[language];
    view.lines('row', {
      title: en ? `Position ${i} with each position j` : `位置 ${i} 与各位置 j 的内积`,
      xTitle: en ? 'position j' : '位置 j', yTitle: en ? 'product' : '内积', span: 'half',
      series: [{name: en ? 'product of the rows' : '两行的内积', x: range(tokens), y: row},
               {name, x: range(tokens), y: stated, dashed: true}],
      marks: [{x: j, label: 'j'}],
    });
    view.table('formulas', {
      head: en ? ['at (i, j)', 'value'] : ['在 (i, j) 处', '值'],
      rows: [[en ? 'product of the rows' : '两行的内积', format(row[j])],
             ...formulas.map(({label}, n) => [label[language], format(all[n])])],
    });
  },

  numbers(gnomon) {
    const {row, all} = this.compute(gnomon, {i: 10, j: 3, formula: 'cosines', back: 0});
    const byDistance = (size, count) => {
      const table = gnomon.sinusoidal(range(count), size);
      return range(count).map(d => dot(rowOf(table, 0, size), rowOf(table, d, size)));
    };
    const narrow = byDistance(64, 128), rise = narrow.findIndex((one, d) => one < narrow[d + 1]);
    return {product: format(row[3]), sines: format(all[1], 2), one: format(all[2], 1),
            rise: String(rise), riseTo: String(rise + 1),
            rank: format(rankCorrelation(byDistance(128, 128).slice(1)), 2).replace('-', '−')};
  },
};
