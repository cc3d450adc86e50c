// Figure 7.1: verdicts of `gnomon check` on the ideals, computed for the encodings of the reader.
import {list, options, title} from './shared/lab.js';

const usual = ['sinusoidal', 'rotary', 'alibi', 't5'];
const more = ['none', 'learned', 'xpos', 'sandwich', 'kerple', 'fire', 'shaw', 'transformer-xl'];
const setting = {width: 64, heads: 2, trained: 64, length: 256};

const heads = {
  unique: {en: 'unique', zh: '唯一'},
  distance: {en: 'distance', zh: '相对'},
  beyond: {en: 'beyond', zh: '外推'},
  nearer: {en: 'nearer', zh: '衰减'},
  sides: {en: 'sides', zh: '左右'},
};
const chinese = {yes: '是', no: '否', most: '大致', trained: '由训练决定', causal: '仅因果', tokens: '由内容决定'};

function word(verdict, language) {
  if (language !== 'zh') return verdict.word;
  const ends = /^ends (\d+)$/.exec(verdict.word);
  return ends ? `止于 ${ends[1]}` : chinese[verdict.word] ?? verdict.word;
}

const demands = state => Object.keys(heads).filter(key => key !== 'sides' || state.sides);

function missed(row, state) {
  return demands(state).filter(key => row.verdicts[key].word !== 'yes');
}

export default {
  name: 'ideals',
  data: [],
  controls: [
    {name: 'kind', type: 'choice', options: options(more), value: 'transformer-xl',
     label: {en: 'One more encoding', zh: '再加一种编码'}},
    {name: 'sides', type: 'toggle', value: true,
     label: {en: 'Also demand: left and right are told apart', zh: '还要求：能区分左右'}},
  ],
  breaks: {sides: false},

  compute(gnomon, {kind}) {
    return {rows: [...usual, kind].map(name => {
      const {verdicts} = gnomon.check(name, setting);
      return {name, verdicts: Object.fromEntries(verdicts.map(one => [one.property, one]))};
    })};
  },

  claim({rows}, state) {
    return rows.every(row => missed(row, state).length > 0);
  },

  say({rows}, state, language) {
    const all = rows.filter(row => missed(row, state).length === 0).map(row => row.name);
    const last = rows[rows.length - 1];
    const misses = missed(last, state).map(key => heads[key][language]);
    if (language === 'zh') {
      const first = all.length === 0 ? '表中没有一种编码满足全部要求。'
        : `满足全部要求的有：${list(all, 'zh')}。`;
      const second = misses.length === 0 ? '' :
        `${title(last.name, 'zh')} 没有答“是”的要求：${misses.join('、')}。`;
      return first + second;
    }
    const first = all.length === 0 ? 'No encoding of the table meets every demand.'
      : `Every demand is met by: ${list(all, 'en')}.`;
    const second = misses.length === 0 ? '' :
      ` Without a plain yes for ${title(last.name, 'en')}: ${misses.join(', ')}.`;
    return first + second;
  },

  draw(view, {rows}, state, language) {
    const keys = demands(state);
    view.table('verdicts', {
      title: language === 'zh' ? 'gnomon check 的结论' : 'Verdicts of gnomon check',
      head: [language === 'zh' ? '编码' : 'encoding', ...keys.map(key => heads[key][language])],
      rows: rows.map(row => [title(row.name, language),
                             ...keys.map(key => word(row.verdicts[key], language))]),
    });
    const shares = rows.filter(row => /^\d+ ?%$/.test(row.verdicts.beyond.number));
    view.bars('beyond', {
      title: language === 'zh' ? '位置 255 处没有训练先例的注意力权重'
        : 'Attention weight without precedent in training, at position 255',
      unit: '%', range: [0, 100],
      bars: shares.map(row => ({name: title(row.name, language),
                                value: parseFloat(row.verdicts.beyond.number)})),
    });
  },

  numbers(gnomon) {
    const {verdicts} = gnomon.check('alibi', setting);
    return {alibi: String(parseFloat(verdicts.find(one => one.property === 'beyond').number))};
  },
};
