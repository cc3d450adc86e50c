// The position table of a small ViT: the similarity of one patch with all others, on their grid.
import {cosines, fixed, nearestRows, say} from '../rows.js';

const side = 8;
const steps = (a, b) => Math.abs(Math.floor(a / side) - Math.floor(b / side)) +
    Math.abs(a % side - b % side);

export default {
  name: 'table-patches',
  data: ['vit-positions'],
  controls: [
    {name: 'row', type: 'range', min: 0, max: side - 1, step: 1, value: 3,
     label: {en: 'Row of the patch', zh: '图像块所在行'}},
    {name: 'column', type: 'range', min: 0, max: side - 1, step: 1, value: 4,
     label: {en: 'Column of the patch', zh: '图像块所在列'}},
    {name: 'trained', type: 'toggle', value: true, label: {en: 'Trained', zh: '已训练'}},
  ],
  breaks: {trained: false},

  compute(gnomon, {row, column, trained}, data) {
    const {values, rows, columns} = data['vit-positions'], patch = side * row + column;
    const table = trained ? values : gnomon.normal(rows * columns, 1);
    const similarity = cosines(table, rows, columns), nearest = nearestRows(similarity, rows);
    const sums = new Float64Array(2 * side - 1), counts = new Float64Array(2 * side - 1);
    for (let a = 0; a < rows; ++a)
      for (let b = 0; b < rows; ++b) {
        sums[steps(a, b)] += similarity[a * rows + b];
        ++counts[steps(a, b)];
      }
    return {
      map: similarity.slice(patch * rows, (patch + 1) * rows),
      adjacent: nearest.filter((other, one) => steps(one, other) === 1).length,
      nearest: nearest[patch], means: sums.map((sum, distance) => sum / counts[distance]),
    };
  },

  claim: ({adjacent}) => adjacent === side * side,

  say({adjacent, nearest}, {row, column}, language) {
    const y = Math.floor(nearest / side), x = nearest % side;
    return say(language,
               `The patch most similar to row ${row}, column ${column} is in row ${y}, column ` +
               `${x}. For ${adjacent} of ${side * side} patches the most similar one is directly ` +
               `above, below or beside it.`,
               `与第 ${row} 行第 ${column} 列的图像块最相似的，是第 ${y} 行第 ${x} 列的图像块。` +
               `${side * side} 个图像块中有 ${adjacent} 个，与其最相似的图像块紧邻在上、下、左或右。`);
  },

  draw(view, {map, means}, {row, column}, language) {
    view.heatmap('map', {
      values: map, rows: side, columns: side, scale: 'diverging', range: [-1, 1], span: 'half',
      title: say(language, 'Cosine with the outlined patch', '与框内图像块的余弦相似度'),
      rowTitle: say(language, 'row', '行'), columnTitle: say(language, 'column', '列'),
      marks: [{row, column}], pick: (y, x) => ({row: y, column: x}),
    });
    view.lines('means', {
      series: [{x: [...means.keys()], y: [...means], points: true}], yRange: [-1, 1], span: 'half',
      title: say(language, 'Mean cosine by distance on the grid', '平均余弦相似度随网格距离的变化'),
      xTitle: say(language, 'rows + columns apart', '相隔的行数与列数之和'),
      yTitle: say(language, 'mean cosine', '平均余弦相似度'),
    });
  },

  numbers(gnomon, data) {
    const state = {row: 3, column: 4, trained: true};
    const after = this.compute(gnomon, state, data);
    const before = this.compute(gnomon, {...state, trained: false}, data);
    return {
      before: String(before.adjacent), nine: fixed(after.means[9]),
      fourteen: fixed(after.means[14]),
    };
  },
};
