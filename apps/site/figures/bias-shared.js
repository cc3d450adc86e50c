// Which entries of a matrix of scores share one number.
import {multiply, say} from '../rows.js';
import {number} from '../web/text.js';

const tokens = 16, side = 4;
const specs = {
  clipped: {kind: 'clipped', heads: 1, left: 4, right: 4},
  t5: {kind: 't5', heads: 1, direction: 'bidirectional', buckets: 8, max_distance: 16},
  alibi: {kind: 'alibi', heads: 1},
  swin: {kind: 'swin', heads: 1, height: side, width: side, class_tokens: 0},
};

// The products row_i A . row_j of a learned table: what it contributes to the scores by itself.
function productsOfTable(gnomon) {
  const width = 16, table = gnomon.normal(tokens * width, 1);
  const encoding = gnomon.encoding('none', {width, heads: 1, length: tokens});
  const plan = encoding.plan({keys: tokens, causal: false});
  const q = multiply(table, gnomon.normal(width * width, 2).map(value => value / 4), tokens, width,
                     width);
  const scores = plan.scores(q, table, {heads: 1});
  plan.free();
  encoding.free();
  return scores;
}

function valuesOf(gnomon, kind) {
  if (kind === 'table') return productsOfTable(gnomon);
  const encoding = gnomon.encoding(specs[kind]);
  const parameters = encoding.parameters.map(one => gnomon.normal(one.rows * one.columns, 3));
  const plan = encoding.plan({keys: tokens, causal: false, parameters});
  const values = plan.bias(1, tokens, tokens);
  plan.free();
  encoding.free();
  return values;
}

// What the bias is a function of: the distance, or the offset on the grid as text.
const offsetOf = (kind, query, key) => kind === 'swin'
    ? `${Math.floor(query / side) - Math.floor(key / side)},${query % side - key % side}`
    : String(query - key);

export default {
  name: 'bias-shared',
  data: [],
  controls: [
    {name: 'kind', type: 'choice', value: 'clipped',
     options: [
       {value: 'clipped', label: {en: 'table by distance, clipped at 4', zh: '按距离查表，截断于 4'}},
       {value: 't5', label: {en: 'T5, 8 buckets', zh: 'T5，8 个桶'}},
       {value: 'alibi', label: {en: 'ALiBi', zh: 'ALiBi'}},
       {value: 'swin', label: {en: 'Swin, window of 4 x 4', zh: 'Swin，4 x 4 窗口'}},
       {value: 'table', label: {en: 'learned table, added', zh: '可学习位置编码（相加）'}},
     ],
     label: {en: 'Encoding', zh: '位置编码'}},
    {name: 'query', type: 'range', min: 0, max: tokens - 1, step: 1, value: 9,
     label: {en: 'Query', zh: '查询'}},
    {name: 'key', type: 'range', min: 0, max: tokens - 1, step: 1, value: 6,
     label: {en: 'Key', zh: '键'}},
  ],
  breaks: {kind: 'table'},

  compute(gnomon, {kind, query, key}) {
    const values = valuesOf(gnomon, kind), chosen = values[query * tokens + key];
    const shared = [], offsets = new Set(), own = offsetOf(kind, query, key);
    let equal = 0, all = 0;
    values.forEach((value, at) => {
      const i = Math.floor(at / tokens), j = at % tokens, isEqual = value === chosen;
      if (isEqual) {
        shared.push([i, j]);
        offsets.add(offsetOf(kind, i, j));
      }
      if (offsetOf(kind, i, j) === own) {
        ++all;
        if (isEqual) ++equal;
      }
    });
    return {values, chosen, shared, offsets: [...offsets], own, equal, all,
            different: new Set(values).size};
  },

  claim: ({equal, all}) => equal === all && all > 1,

  say({chosen, shared, offsets, all, own, different}, {kind, query, key}, language) {
    const count = shared.length - 1;
    const shown = own.replaceAll('-', '−').replace(',', ', ');
    const [en, zh] = kind === 'swin'
        ? [`${shown} rows and columns apart`, `相隔的行数和列数为 ${shown}`]
        : [`distance ${shown}`, `距离为 ${shown}`];
    const same = all - 1, others = offsets.length - 1;
    const more = others === 1 ? '; 1 other distance shares it'
                              : `; ${others} other distances share it`;
    return say(language,
               `Query ${query} and key ${key} (${en}): ${number(chosen)}. ${count} other entries ` +
               `share this number, ${same} have the same ` +
               `${kind === 'swin' ? 'offset' : 'distance'}${others ? more : ''}. ` +
               `The matrix has ${different} different numbers.`,
               `查询 ${query} 与键 ${key}（${zh}）：${number(chosen)}。另有 ${count} 个元素共用这个数，` +
               `${same} 个元素的${kind === 'swin' ? '偏移' : '距离'}与之相同` +
               `${others ? `；还有 ${others} 种距离也共用它` : ''}。整个矩阵有 ${different} 个不同的数。`);
  },

  draw(view, {values, shared}, {query, key}, language) {
    view.heatmap('values', {
      values, rows: tokens, columns: tokens, scale: 'diverging',
      title: say(language, 'What position adds to the scores; outlined: the same number',
                 '位置给分数加上的数；框内：同一个数'),
      rowTitle: say(language, 'query', '查询'), columnTitle: say(language, 'key', '键'),
      marks: [...shared.map(([row, column]) => ({row, column})), {row: query, column: key}],
      pick: (row, column) => ({query: row, key: column}),
    });
  },

  numbers(gnomon) {
    const count = kind => String(this.compute(gnomon, {kind, query: 9, key: 6}).different);
    return {clipped: count('clipped'), swin: count('swin'), table: count('table')};
  },
};
