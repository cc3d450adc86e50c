// A table resized to more rows by linear interpolation: distances shrink.
import {fixed, meanCosines, resizeRows, say} from '../rows.js';
import {number} from '../web/text.js';

const at = (values, x) => {
  const low = Math.min(Math.floor(x), values.length - 1);
  const high = Math.min(low + 1, values.length - 1);
  return values[low] + (x - low) * (values[high] - values[low]);
};

export default {
  name: 'table-resize',
  data: ['learned-table'],
  controls: [
    {name: 'to', type: 'range', min: 96, max: 256, step: 32, value: 128,
     label: {en: 'Rows after resizing', zh: '插值后的行数'}},
    {name: 'trained', type: 'toggle', value: true, label: {en: 'Trained', zh: '已训练'}},
  ],
  breaks: {trained: false},

  compute(gnomon, {to, trained}, data) {
    const {values, initial, rows, columns} = data['learned-table'];
    const table = trained ? values : initial;
    const factor = to / rows, half = rows / 2;
    const old = meanCosines(table, rows, columns, half);
    const resized = meanCosines(resizeRows(table, rows, columns, to), to, columns, to / 2);
    // The resized curve at the distance d factor, beside the old one at d.
    let difference = 0;
    for (let d = 1; d <= half; ++d)
      difference = Math.max(difference, Math.abs(at(resized, d * factor) - old[d]));
    return {old, resized, factor, difference};
  },

  claim: ({difference}) => difference < 0.03,

  say({old, resized, factor, difference}, _, language) {
    const [en, zh] = difference < 0.03
        ? [`Rows that are ${number(factor)} d apart now are as similar as rows that were d ` +
               `apart, to ${fixed(difference, 3)}.`,
           `现在相距 ${number(factor)}d 的行与原来相距 d 的行相似程度相同，误差不超过 ` +
               `${fixed(difference, 3)}。`]
        : [`Rows that are ${number(factor)} d apart now and rows that were d apart have mean ` +
               `cosines that differ by up to ${fixed(difference, 3)}.`,
           `现在相距 ${number(factor)}d 的行与原来相距 d 的行，平均余弦相似度最多相差 ` +
               `${fixed(difference, 3)}。`];
    return say(language,
               `Neighbouring rows have a mean cosine of ${fixed(resized[1], 3)} instead of ` +
               `${fixed(old[1], 3)}. ${en}`,
               `相邻行的平均余弦相似度从 ${fixed(old[1], 3)} 变为 ${fixed(resized[1], 3)}。${zh}`);
  },

  draw(view, {old, resized, factor}, {to}, language) {
    const stretched = Float64Array.from(old.keys(), d => d * factor);
    view.lines('means', {
      series: [
        {name: say(language, '64 rows', '64 行'), x: [...old.keys()], y: [...old]},
        {name: say(language, `${to} rows`, `${to} 行`), x: [...resized.keys()], y: [...resized]},
        {name: say(language, '64 rows, distances stretched', '64 行，距离拉伸后'),
         x: [...stretched], y: [...old], dashed: true, colour: 'c'},
      ],
      yRange: [-1, 1], xRange: [0, to / 2],
      title: say(language, 'Mean cosine of two rows by distance', '两行的平均余弦相似度随距离的变化'),
      xTitle: say(language, 'distance (rows)', '距离（行）'),
      yTitle: say(language, 'mean cosine', '平均余弦相似度'),
    });
  },

  numbers(gnomon, data) {
    const after = this.compute(gnomon, {to: 128, trained: true}, data);
    const before = this.compute(gnomon, {to: 128, trained: false}, data);
    return {
      old: fixed(after.old[1], 3), resized: fixed(after.resized[1], 3),
      before: fixed(before.difference),
    };
  },
};
