// Cosines of all pairs of rows of a table, before and after training.
import {trainHead} from '../position_head.js';
import {cosines, fixed, meanCosines, nearestRows, say} from '../rows.js';

function tableOf(gnomon, kind, data) {
  const text = data['learned-table'], vit = data['vit-positions'];
  if (kind === 'before') return {...text, values: text.initial};
  if (kind === 'text') return text;
  if (kind === 'patches') return vit;
  const {table} = trainHead(gnomon, {rows: 12, width: 8, steps: 40});
  return {values: table, rows: 12, columns: 8};
}

export default {
  name: 'table-similarity',
  data: ['learned-table', 'vit-positions'],
  controls: [
    {name: 'table', type: 'choice', value: 'text',
     options: [
       {value: 'text', label: {en: 'text model, trained', zh: '文本模型，训练后'}},
       {value: 'before', label: {en: 'text model, before training', zh: '文本模型，训练前'}},
       {value: 'head', label: {en: 'the head of figure 3.2', zh: '图 3.2 的注意力头'}},
       {value: 'patches', label: {en: 'ViT, patches by number', zh: 'ViT，按编号排列的图像块'}},
     ],
     label: {en: 'Table', zh: '表'}},
  ],
  breaks: {table: 'before'},

  compute(gnomon, {table}, data) {
    const {values, rows, columns} = tableOf(gnomon, table, data);
    const similarity = cosines(values, rows, columns);
    const nearest = nearestRows(similarity, rows);
    const adjacent = nearest.filter((other, row) => Math.abs(other - row) === 1).length;
    return {similarity, rows, adjacent, means: meanCosines(values, rows, columns)};
  },

  claim: ({rows, adjacent}) => adjacent === rows,

  say({rows, adjacent, means}, _, language) {
    const half = rows / 2;
    return say(language,
               `For ${adjacent} of ${rows} rows the most similar other row is a neighbour by ` +
               `number. The mean cosine is ${fixed(means[1])} at distance 1 and ` +
               `${fixed(means[half])} at distance ${half}.`,
               `${rows} 行中有 ${adjacent} 行，与其最相似的另一行在编号上相邻。平均余弦相似度在距离 1 处` +
               `为 ${fixed(means[1])}，在距离 ${half} 处为 ${fixed(means[half])}。`);
  },

  draw(view, {similarity, rows, means}, _, language) {
    view.heatmap('similarity', {
      values: similarity, rows, columns: rows, scale: 'diverging', range: [-1, 1], span: 'half',
      title: say(language, 'Cosine of two rows', '两行的余弦相似度'),
      rowTitle: say(language, 'position', '位置'), columnTitle: say(language, 'position', '位置'),
    });
    view.lines('means', {
      series: [{x: [...means.keys()], y: [...means]}], yRange: [-1, 1], span: 'half',
      title: say(language, 'Mean cosine by distance', '平均余弦相似度随距离的变化'),
      xTitle: say(language, 'distance (rows)', '距离（行）'),
      yTitle: say(language, 'mean cosine', '平均余弦相似度'),
    });
  },

  numbers(gnomon, data) {
    const [text, before, head, patches] = ['text', 'before', 'head', 'patches'].map(
        table => this.compute(gnomon, {table}, data));
    return {
      adjacent: String(text.adjacent), rows: String(text.rows),
      near: fixed(text.means[1]), far: fixed(text.means[32]), last: fixed(text.means[60]),
      before: String(before.adjacent),
      head: String(head.adjacent),
      eight: fixed(patches.means[8]), four: fixed(patches.means[4]),
      steps: String(data['learned-table'].steps),
    };
  },
};
