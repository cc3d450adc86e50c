// A learned table gives each token the row of its position, and has no row after its end.
import {say} from '../rows.js';

const rows = 8, width = 16;
const words = {
  en: ['the', 'cat', 'sat', 'on', 'the', 'mat', 'and', 'slept', 'all', 'day', 'long', '.'],
  zh: ['猫', '坐', '在', '垫子', '上', '，', '睡', '了', '一', '整', '天', '。'],
};

export default {
  name: 'table-rows',
  data: [],
  controls: [
    {name: 'tokens', type: 'range', min: 1, max: 12, step: 1, value: 6,
     label: {en: 'Length of the text', zh: '文本长度'}, unit: {en: 'tokens', zh: '个词元'}},
  ],
  breaks: {tokens: 9},

  compute(gnomon, {tokens}) {
    const table = gnomon.normal(rows * width, 3).map(value => 0.02 * value);
    const encoding = gnomon.encoding({kind: 'learned', rows, width, offset: 0});
    const result = {tokens, table, added: null, error: '', difference: NaN};
    try {
      const plan = encoding.plan({keys: tokens, parameters: [table]});
      result.added = plan.table(tokens, width);
      result.difference = Math.max(...result.added.map((value, i) => Math.abs(value - table[i])));
      plan.free();
    } catch (error) {
      if (error.status !== 1) throw error;
      result.error = error.message;
    }
    encoding.free();
    return result;
  },

  claim: ({difference}) => difference === 0,

  say({tokens, error}, _, language) {
    if (error)
      return say(language,
                 `The text has ${tokens} tokens and the table ${rows} rows. The library refuses: ` +
                 `“${error}”.`,
                 `文本有 ${tokens} 个词元，而表只有 ${rows} 行。库拒绝执行，报错为“${error}”。`);
    if (tokens === 1)
      return say(language, 'The text of one token gets row 0 of the table, unchanged.',
                 '这段只有一个词元的文本得到表的第 0 行，数值不变。');
    return say(language,
               `The text of ${tokens} tokens gets rows 0 to ${tokens - 1} of the table, unchanged.`,
               `这段 ${tokens} 个词元的文本得到表的第 0 到 ${tokens - 1} 行，数值不变。`);
  },

  draw(view, {tokens, table, added, error}, _, language) {
    view.words('words', {
      title: say(language, 'Tokens and their positions', '词元及其位置'),
      words: words[language].slice(0, tokens).map((text, i) => (
          {text, note: String(i), colour: i < rows ? 'a' : 'bad'})),
    });
    const common = {columns: width, scale: 'diverging', range: [-0.06, 0.06], span: 'half',
                    columnTitle: say(language, 'channel', '通道'),
                    rowTitle: say(language, 'position', '位置')};
    view.heatmap('table', {
      ...common, values: table, rows, aspect: 0.6,
      title: say(language, 'The parameter: 8 rows of 16 numbers', '参数：8 行，每行 16 个数'),
      marks: [{row: 0, column: 0, rows: Math.min(tokens, rows), columns: width}],
    });
    if (!error)
      view.heatmap('added', {
        ...common, values: added, rows: tokens, aspect: 0.6 * tokens / rows,
        title: say(language, 'What is added to the embeddings', '加到嵌入上的数'),
      });
  },
};
