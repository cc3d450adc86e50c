// A learned table, trained in the page: only rows that a training text reaches are trained.
import {trainHead} from '../position_head.js';
import {cosines, fixed, percent, say} from '../rows.js';

const rows = 12, width = 8;

export default {
  name: 'table-training',
  data: [],
  controls: [
    {name: 'steps', type: 'range', min: 0, max: 40, step: 1, value: 40,
     label: {en: 'Training steps', zh: '训练步数'}},
    {name: 'longest', type: 'range', min: 3, max: 12, step: 1, value: 9,
     label: {en: 'Length of the training text', zh: '训练文本的长度'},
     unit: {en: 'tokens', zh: '个词元'}},
  ],
  breaks: {longest: 12},

  compute(gnomon, {steps, longest}) {
    const {initial, table, weights} = trainHead(gnomon, {rows, width, longest, steps});
    const before = i => weights[i * rows + i - 1];
    const all = Array.from({length: rows - 1}, (_, i) => before(i + 1));
    let moved = 0;
    for (let i = longest * width; i < rows * width; ++i)
      moved = Math.max(moved, Math.abs(table[i] - initial[i]));
    const similarity = cosines(table, rows, width);
    const neighbours = similarity.filter((_, at) => {
      const i = Math.floor(at / rows), j = at % rows;
      return j === i - 1 && i < longest;
    });
    return {
      weights: weights.map((weight, at) => at % rows > Math.floor(at / rows) ? NaN : weight),
      similarity, moved,
      lowest: Math.min(...all.slice(0, longest - 1)),
      highest: Math.max(...all.slice(longest - 1), -Infinity),
      neighbours: neighbours.reduce((sum, value) => sum + value, 0) / neighbours.length,
    };
  },

  claim: ({lowest, highest, moved}) => lowest > 0.9 && highest > 0 && highest < 0.5 && moved === 0,

  say({lowest, highest, neighbours}, {steps, longest}, language) {
    const after = longest === rows
        ? say(language, 'No row is left out.', '没有哪一行被遗漏。')
        : say(language,
              `At positions ${longest} to ${rows - 1}, whose rows are still the starting values, ` +
              `it is at most ${percent(highest, 'ceil')} %.`,
              `在位置 ${longest} 到 ${rows - 1}，对应的行仍是初始值，该权重最多为 ${percent(highest, 'ceil')} %。`);
    return say(language,
               `After ${steps} steps the weight of the token before is at least ` +
               `${percent(lowest, 'floor')} % at positions 1 to ${longest - 1}. ${after} The ` +
               `mean cosine of neighbouring trained rows is ${fixed(neighbours)}.`,
               `训练 ${steps} 步后，在位置 1 到 ${longest - 1}，前一个词元的权重至少为 ` +
               `${percent(lowest, 'floor')} %。${after}已训练的相邻两行的平均余弦相似度为 ` +
               `${fixed(neighbours)}。`);
  },

  draw(view, {weights, similarity}, {longest}, language) {
    const marks = longest < rows ? [{row: longest, column: 0, rows: rows - longest, columns: rows}]
                                 : [];
    view.heatmap('weights', {
      values: weights, rows, columns: rows, range: [0, 1], marks, span: 'half',
      title: say(language, 'Attention weights (outlined: not trained)', '注意力权重（框内：未训练）'),
      rowTitle: say(language, 'query', '查询'), columnTitle: say(language, 'key', '键'),
    });
    view.heatmap('similarity', {
      values: similarity, rows, columns: rows, range: [-1, 1], scale: 'diverging', marks,
      span: 'half', title: say(language, 'Cosine of two rows of the table', '表中两行的余弦相似度'),
      rowTitle: say(language, 'position', '位置'), columnTitle: say(language, 'position', '位置'),
    });
  },

  numbers(gnomon) {
    const {lowest, highest, neighbours} = this.compute(gnomon, {steps: 40, longest: 9});
    return {
      lowest: percent(lowest, 'floor'), highest: percent(highest, 'ceil'),
      neighbours: fixed(neighbours),
    };
  },
};
