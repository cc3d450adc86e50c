// Positions after the end of a table: if they share its last row, their tokens have no order.
import {cosines, resizeRows, say} from '../rows.js';
import {number} from '../web/text.js';

const tokens = 96, last = tokens - 1;

// The rows of 96 positions by a rule, from a table that has fewer.
function rowsBy(rule, {values, rows, columns}) {
  if (rule === 'resize') return resizeRows(values, rows, columns, tokens);
  return Float64Array.from({length: tokens * columns}, (_, at) => {
    const position = Math.floor(at / columns);
    const row = rule === 'clamp' ? Math.min(position, rows - 1) : position % rows;
    return values[row * columns + at % columns];
  });
}

export default {
  name: 'table-end',
  data: ['learned-table'],
  controls: [
    {name: 'rule', type: 'choice', value: 'clamp',
     options: [
       {value: 'clamp', label: {en: 'the last row (clamped)', zh: '最后一行（截断）'}},
       {value: 'wrap', label: {en: 'from row 0 again (wrapped)', zh: '从第 0 行重新开始（回绕）'}},
       {value: 'resize', label: {en: 'all rows interpolated', zh: '整表插值'}},
     ],
     label: {en: 'Positions 64 to 95 get', zh: '位置 64 到 95 使用'}},
    {name: 'first', type: 'range', min: 0, max: last - 1, step: 1, value: 72,
     label: {en: 'Swap the token at position 95 with that at', zh: '与位置 95 的词元交换的位置'}},
  ],
  breaks: {first: 20},

  compute(gnomon, {rule, first}, data) {
    const {columns} = data['learned-table'], rows = rowsBy(rule, data['learned-table']);
    const words = gnomon.normal(tokens * columns, 5).map(value => 0.67 * value);
    const encoding = gnomon.encoding('none', {width: columns, heads: 1, length: tokens});
    const plan = encoding.plan({keys: tokens, causal: false});
    // Queries, keys and values are the inputs themselves.
    const attend = word => {
      const x = Float32Array.from(rows, (value, at) => value +
          words[word(Math.floor(at / columns)) * columns + at % columns]);
      return plan.attention(x, x, x, {heads: 1});
    };
    const original = attend(i => i);
    const swapped = attend(i => i === first ? last : i === last ? first : i);
    plan.free();
    encoding.free();
    const changes = Array.from({length: tokens}, (_, i) => {
      if (i === first || i === last) return NaN;
      let most = 0;
      for (let c = 0; c < columns; ++c)
        most = Math.max(most, Math.abs(swapped[i * columns + c] - original[i * columns + c]));
      return most;
    });
    const change = Math.max(...changes.filter(Number.isFinite));
    return {changes, change, similarity: cosines(rows, tokens, columns)};
  },

  claim: ({change}) => change < 1e-4,

  say({change}, {first}, language) {
    return say(language,
               `Tokens ${first} and 95 are swapped. The outputs of the other ${tokens - 2} ` +
               `tokens change by at most ${number(change)}` +
               (change < 1e-4 ? ': they do not depend on this order.' : '.'),
               `交换位置 ${first} 与 95 的词元后，其余 ${tokens - 2} 个词元的输出最多改变 ` +
               `${number(change)}` + (change < 1e-4 ? '：它们与这一顺序无关。' : '。'));
  },

  draw(view, {changes, similarity}, {first}, language) {
    view.heatmap('similarity', {
      values: similarity, rows: tokens, columns: tokens, scale: 'diverging', range: [-1, 1],
      span: 'half', title: say(language, 'Cosine of the rows in use', '所用各行的余弦相似度'),
      rowTitle: say(language, 'position', '位置'), columnTitle: say(language, 'position', '位置'),
      marks: [{row: 64, column: 64, rows: 32, columns: 32}],
    });
    view.lines('changes', {
      series: [{x: [...changes.keys()], y: changes}], span: 'half',
      yRange: [0, Math.max(0.1, ...changes.filter(Number.isFinite))],
      title: say(language, 'Change of each output by the swap', '交换使各输出改变的大小'),
      xTitle: say(language, 'position', '位置'), yTitle: say(language, 'change', '变化'),
      marks: [{x: first, label: String(first)}, {x: last, label: '95'}],
    });
  },

  numbers(gnomon, data) {
    const change = state => number(this.compute(gnomon, state, data).change, 2);
    return {inside: change({rule: 'clamp', first: 20})};
  },
};
