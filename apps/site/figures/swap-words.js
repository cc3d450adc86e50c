// Attention of a text and of the same text with two words swapped.
import {changeOfRows, largest, meanOfHeads, planOf, projections, queriesKeysValues, reorder,
        vectors, withTable, wordsOf} from './shared/layer.js';
import {hundredths, percent} from './shared/format.js';

const width = 32, heads = 4, maxWords = 12, rounding = 1e-5;

function attend(plan, x, matrices) {
  const [q, k, v] = queriesKeysValues(withTable(plan, x, width), matrices, width);
  return {
    outputs: plan.attention(q, k, v, {heads}),
    weights: meanOfHeads(plan.weights(q, k, {heads}), heads),
  };
}

export default {
  name: 'swap-words',
  data: [],
  controls: [
    {name: 'words', type: 'text',
     value: {en: 'the cat chases the dog', zh: '那只 猫 追赶 那只 狗'},
     label: {en: 'Your sentence', zh: '你的句子'}},
    {name: 'first', type: 'range', min: 1, max: maxWords, step: 1, value: 2,
     label: {en: 'Swap word', zh: '交换第几个词'}},
    {name: 'second', type: 'range', min: 1, max: maxWords, step: 1, value: 5,
     label: {en: 'with word', zh: '与第几个词'}},
    {name: 'encoding', type: 'choice', value: 'none',
     label: {en: 'Position encoding', zh: '位置编码'},
     options: [
       {value: 'none', label: {en: 'none', zh: '无'}},
       {value: 'sinusoidal', label: {en: 'sinusoidal', zh: '正弦'}},
       {value: 'rotary', label: {en: 'RoPE', zh: 'RoPE'}},
       {value: 'alibi', label: {en: 'ALiBi', zh: 'ALiBi'}},
     ]},
    {name: 'causal', type: 'toggle', value: false, label: {en: 'Causal mask', zh: '因果掩码'}},
  ],
  breaks: {encoding: 'sinusoidal'},

  compute(gnomon, {words: text, first, second, encoding, causal}) {
    const all = wordsOf(text), words = all.slice(0, maxWords), tokens = words.length;
    if (tokens === 0)
      return {words, swapped: [], changes: [], weightChange: 0, before: [], after: [], cut: 0};
    const order = words.map((_, t) => t);
    const a = Math.min(first, tokens) - 1, b = Math.min(second, tokens) - 1;
    [order[a], order[b]] = [b, a];
    const x = vectors(gnomon, words, width);
    const plan = planOf(gnomon, encoding, {width, heads, tokens, causal});
    const matrices = projections(gnomon, width, 11);
    const before = attend(plan, x, matrices);
    const after = attend(plan, reorder(x, order, width), matrices);
    plan.free();
    // Back in the order of the first text: a swap is its own inverse.
    const changes = changeOfRows(reorder(after.outputs, order, width), before.outputs, width);
    const weights = new Float32Array(tokens * tokens);
    for (let i = 0; i < tokens; ++i)
      for (let j = 0; j < tokens; ++j)
        weights[i * tokens + j] = after.weights[order[i] * tokens + order[j]];
    return {words, swapped: order.map(t => words[t]), places: [a, b], order, changes,
            weightChange: largest(weights.map((one, i) => one - before.weights[i])),
            before: before.weights, after: weights, cut: all.length - tokens};
  },

  claim: ({changes, weightChange}) => Math.max(0, weightChange, ...changes) < rounding,

  say({words, places, changes, weightChange, cut}, {causal}, language) {
    const en = language === 'en', limit = cut === 0 ? ''
        : en ? ` Only the first ${maxWords} words are used.` : `只用了前 ${maxWords} 个词。`;
    if (words.length < 2) return en ? 'Write at least two words.' : '请至少写两个词。';
    const [a, b] = places.map(place => words[place]);
    if (a.toLowerCase() === b.toLowerCase())
      return (en ? `Both words are “${a}”: choose two different words.`
                 : `两个词都是“${a}”：请选两个不同的词。`) + limit;
    const most = Math.max(...changes), moved = changes.filter(one => one >= rounding).length;
    const mask = !causal ? '' : en ? ' The causal mask is on.' : '因果掩码已打开。';
    if (moved === 0 && weightChange < rounding)
      return (en ? `“${a}” and “${b}” are swapped. Each word keeps its output and its weights.`
                 : `“${a}”和“${b}”已交换。每个词的输出和权重都不变。`) + mask + limit;
    return (en ? `“${a}” and “${b}” are swapped. The outputs of ${moved} of ${words.length} ` +
                 `words change, by up to ${percent(most)} of the largest output.`
               : `“${a}”和“${b}”已交换。${words.length} 个词中有 ${moved} 个的输出改变，` +
                 `最多为最大输出的 ${percent(most)}。`) + mask + limit;
  },

  draw(view, {words, swapped, order, changes, before, after}, state, language) {
    const en = language === 'en', tokens = words.length;
    if (tokens === 0) return;
    view.words('swapped', {
      title: en ? 'The swapped sentence, with the change of the output of each word'
                : '交换后的句子，以及每个词输出的变化',
      words: swapped.map((text, t) => ({
        text, note: percent(changes[order[t]]), colour: order[t] === t ? 'muted' : 'a'})),
    });
    const axes = {rows: tokens, columns: tokens, rowLabels: words, columnLabels: words,
                  rowTitle: en ? 'query' : '查询', columnTitle: en ? 'key' : '键',
                  scale: 'sequential', range: [0, Math.max(...before, ...after)], span: 'half'};
    view.heatmap('before', {...axes, values: before,
                            title: en ? 'Weights, your sentence' : '原句的注意力权重'});
    view.heatmap('after', {...axes, values: after,
                           title: en ? 'Weights after the swap, in the order of your sentence'
                                     : '交换后的权重（按原句顺序排列）'});
  },

  numbers(gnomon) {
    const at = encoding => Math.max(...this.compute(gnomon, {
      words: 'the cat chases the dog', first: 2, second: 5, encoding, causal: false}).changes);
    return {none: hundredths(at('none')), sinusoidal: hundredths(at('sinusoidal'))};
  },
};
