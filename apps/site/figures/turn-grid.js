// Chapter 5: rotary on a grid.
import {number} from '../web/text.js';
import {dot} from './shared/vectors.js';

const side = 17, cells = side * side, size = 64, base = 100;

// One position for each cell: its row, row + column, or its number in reading order.
const scalar = {
  row: (y, _) => y,
  sum: (y, x) => y + x,
  order: (y, x) => side * y + x,
};

// Frequencies of the rows and of the columns, [heads, pairs] each. Both angles are added.
function axes(gnomon, angles) {
  const grid = [side, side], pairs = size / 2;
  if (angles === 'mixed') {
    const encoding = gnomon.encoding({kind: 'rotary-mixed', heads: 8, rotary_dim: size,
                                      pairing: 'halves', base, seed: 1, grid});
    const of = name => Float64Array.from(encoding.parameters.find(p => p.name === name).initial);
    return {heads: 8, y: of('y'), x: of('x')};
  }
  const parts = [0, 1].map(axis => ({axis, rotary_dim: size / 2}));
  const all = gnomon.encoding({kind: 'rotary-axial', parts, pairing: 'halves', order: 'blocks',
                               base, grid}).frequencies();
  return {heads: 1, y: all.map((f, i) => i < pairs / 2 ? f : 0),
          x: all.map((f, i) => i < pairs / 2 ? 0 : f)};
}

// Rotated vectors of ones, [heads, cells, size].
function rotated(gnomon, angles) {
  const options = {heads: 1, rotaryDim: size, pairing: 'halves'};
  const cellsOf = position => Array.from(
      {length: cells}, (_, i) => position(Math.floor(i / side), i % side));
  const ones = () => new Float32Array(cells * size).fill(1);
  if (scalar[angles])
    return gnomon.rotate(ones(), cellsOf(scalar[angles]), {...options, base});
  const {heads, y, x} = axes(gnomon, angles);
  const all = new Float32Array(heads * cells * size), pairs = size / 2;
  for (let h = 0; h < heads; ++h) {
    const of = values => values.subarray(h * pairs, (h + 1) * pairs);
    const rows = gnomon.rotate(ones(), cellsOf(row => row), {...options, frequencies: of(y)});
    all.set(gnomon.rotate(rows, cellsOf((_, column) => column), {...options, frequencies: of(x)}),
            h * cells * size);
  }
  return all;
}

export default {
  name: 'turn-grid',
  data: [],
  controls: [
    {name: 'angles', type: 'choice', value: 'axial', options: [
      {value: 'row', label: {en: 'the row, for all pairs', zh: '所有元素对都用行号'}},
      {value: 'sum', label: {en: 'row + column, for all pairs', zh: '所有元素对都用行号 + 列号'}},
      {value: 'order', label: {en: 'number in reading order', zh: '逐行阅读的序号'}},
      {value: 'axial', label: {en: 'axial: half of the pairs each', zh: '轴向：行、列各占一半'}},
      {value: 'mixed', label: {en: 'mixed: 8 heads, two frequencies a pair',
                               zh: '混合：8 个头，每对两个频率'}},
    ], label: {en: 'Angle of a cell', zh: '格子的角度'}},
    {name: 'row', type: 'range', min: 0, max: side - 1, step: 1, value: 8,
     label: {en: 'Row of the query', zh: '查询的行'}},
    {name: 'column', type: 'range', min: 0, max: side - 1, step: 1, value: 8,
     label: {en: 'Column of the query', zh: '查询的列'}},
  ],
  breaks: {angles: 'sum'},

  compute(gnomon, {angles, row, column}) {
    const turned = rotated(gnomon, angles), heads = turned.length / (cells * size);
    const scores = new Float64Array(cells), own = (row * side + column) * size;
    for (let h = 0; h < heads; ++h)
      for (let i = 0, from = h * cells * size; i < cells; ++i)
        scores[i] += dot(turned, turned, size, from + own, from + i * size) / (heads * size);
    let equal = 0;
    for (let i = 0; i < cells; ++i) if (i !== row * side + column && scores[i] > 0.999) ++equal;
    const at = (y, x) => scores[(row + y) * side + column + x];
    // Towards the side with more cells.
    const down = row < side / 2 ? 1 : -1, right = column < side / 2 ? 1 : -1;
    const along = {right: [], down: [], diagonal: []};
    for (let d = 0; d <= 8; ++d) {
      along.right.push(at(0, d * right));
      along.down.push(at(d * down, 0));
      if (d * Math.SQRT2 <= 8.5) along.diagonal.push(at(d * down, d * right));
    }
    return {scores, equal, along};
  },

  claim: ({equal}) => equal === 0,

  say({equal, along}, _, language) {
    const straight = number((along.right[8] + along.down[8]) / 2, 2);
    const diagonal = number(along.diagonal[6], 2);
    const [beside, below] = [number(along.right[1], 2), number(along.down[1], 2)];
    if (language === 'zh')
      return (equal ? `另有 ${equal} 个格子的分数与查询所在的格子相同。`
                    : '没有别的格子达到查询所在格子的分数。') +
             `相邻列 ${beside}，相邻行 ${below}；沿行或列距离 8：平均 ${straight}，` +
             `沿对角线距离 8.5：${diagonal}。`;
    return (equal ? `${equal} other cells have the score of the query's own cell.`
                  : "No other cell reaches the score of the query's own cell.") +
           ` Next column ${beside}, next row ${below}; 8 away along a row or column ${straight} ` +
           `on average, 8.5 away along a diagonal ${diagonal}.`;
  },

  draw(view, {scores, along}, {row, column}, language) {
    const zh = language === 'zh';
    view.heatmap('cells', {
      values: scores, rows: side, columns: side, scale: 'sequential', span: 'half', range: [0, 1],
      title: zh ? '查询与每个格子的分数' : 'Score of the query with each cell',
      rowTitle: zh ? '行' : 'row', columnTitle: zh ? '列' : 'column',
      marks: [{row, column}], pick: (y, x) => ({row: y, column: x}),
    });
    const steps = scale => Array.from({length: 9}, (_, d) => d * scale);
    view.lines('profiles', {
      span: 'half', height: 280, yRange: [-0.2, 1.05],
      title: zh ? '沿三个方向的分数' : 'Scores in three directions',
      xTitle: zh ? '直线距离' : 'straight distance', yTitle: zh ? '分数' : 'score',
      series: [
        {name: zh ? '沿行' : 'along the row', x: steps(1), y: along.right, points: true},
        {name: zh ? '沿列' : 'along the column', x: steps(1), y: along.down, points: true},
        {name: zh ? '沿对角线' : 'along the diagonal', points: true, dashed: true,
         x: steps(Math.SQRT2).slice(0, along.diagonal.length), y: along.diagonal},
      ],
    });
  },

  numbers(gnomon) {
    const at = angles => this.compute(gnomon, {angles, row: 8, column: 8});
    const axial = at('axial'), mixed = at('mixed');
    const straight = ({along}) => number((along.right[8] + along.down[8]) / 2, 2);
    const order = at('order');
    return {
      row: String(at('row').equal), sum: String(at('sum').equal),
      axialStraight: straight(axial), axialDiagonal: number(axial.along.diagonal[6], 2),
      mixedStraight: straight(mixed), mixedDiagonal: number(mixed.along.diagonal[6], 2),
      beside: number(order.along.right[1], 2), below: number(order.along.down[1], 2),
    };
  },
};
