// What a second causal layer knows: the change of the last output if the tokens before it move.
import {change, permutation, planOf, projections, queriesKeysValues, reorder, vectors, withTable}
  from './shared/layer.js';
import {hundredths, percent} from './shared/format.js';

const width = 32, heads = 4, layers = 4, rounding = 1e-5, visible = 1e-3;
const letters = ['A', 'B', 'C', 'D', 'E', 'F', 'G', 'H'], tokens = letters.length;

// The output of the last token after each layer: x + attention(x), with one plan for all.
function lastOutputs(plan, x, matrices) {
  const outputs = [];
  for (let layer = 0; layer < layers; ++layer) {
    const y = plan.attention(...queriesKeysValues(x, matrices[layer], width), {heads});
    x = x.map((value, i) => value + y[i]);
    outputs.push(x.slice(-width));
  }
  return outputs;
}

export default {
  name: 'second-layer',
  data: [],
  controls: [
    {name: 'causal', type: 'toggle', value: true, label: {en: 'Causal mask', zh: '因果掩码'}},
    {name: 'order', type: 'range', min: 1, max: 20, step: 1, value: 1,
     label: {en: 'Other order, number', zh: '另一种顺序，编号'}},
    {name: 'encoding', type: 'choice', value: 'none',
     label: {en: 'Position encoding', zh: '位置编码'},
     options: [
       {value: 'none', label: {en: 'none', zh: '无'}},
       {value: 'sinusoidal', label: {en: 'sinusoidal', zh: '正弦'}},
       {value: 'rotary', label: {en: 'RoPE', zh: 'RoPE'}},
     ]},
  ],
  breaks: {causal: false},

  compute(gnomon, {causal, order: seed, encoding}) {
    const order = [...permutation(gnomon, tokens - 1, 100 + seed), tokens - 1];
    const plan = planOf(gnomon, encoding, {width, heads, tokens, causal});
    const matrices = Array.from({length: layers}, (_, l) => projections(gnomon, width, 41 + 3 * l));
    const x = vectors(gnomon, letters, width);
    const first = lastOutputs(plan, withTable(plan, x, width), matrices);
    const second = lastOutputs(plan, withTable(plan, reorder(x, order, width), width), matrices);
    plan.free();
    return {order, changes: first.map((one, l) => change(second[l], one))};
  },

  claim: ({changes}) => changes[0] < rounding && changes[1] > visible,

  say({changes}, {causal}, language) {
    const en = language === 'en', [one, two] = changes;
    const part = (value, layer) => value < rounding
        ? (en ? `after ${layer} the last output is the same` : `${layer}之后最后的输出不变`)
        : (en ? `after ${layer} the last output changes by ${percent(value)}`
              : `${layer}之后最后的输出改变 ${percent(value)}`);
    const mask = causal ? (en ? 'With the mask: ' : '有掩码：')
                        : (en ? 'Without the mask: ' : '没有掩码：');
    return en ? `${mask}${part(one, 'one layer')}, ${part(two, 'two layers')}.`
              : `${mask}${part(one, '一层')}，${part(two, '两层')}。`;
  },

  draw(view, {order, changes}, {causal}, language) {
    const en = language === 'en';
    view.bars('changes', {
      title: en ? 'Change of the last output' : '最后输出的变化', unit: ' %', span: 'half',
      bars: changes.map((one, l) => ({name: en ? `${l + 1} layers` : `${l + 1} 层`,
                                      value: one < rounding ? 0 : 100 * one}))
                   .map((bar, l) => l === 0 && en ? {...bar, name: '1 layer'} : bar),
    });
    // A token of the second layer has read the set of tokens that its place saw in the first.
    const seen = (of, place) => {
      const set = of.slice(0, causal ? place + 1 : tokens).sort();
      return `{${set.map(t => letters[t]).join(' ')}}`;
    };
    const start = letters.map((_, t) => t);
    view.table('sets', {
      title: en ? 'What the first layer gives the second: the set that each place has read'
                : '第一层交给第二层的内容：每个位置读到的集合',
      head: en ? ['place', 'first order', 'other order'] : ['位置', '原顺序', '另一种顺序'],
      rows: start.map(t => [String(t + 1), seen(start, t), seen(order, t)]), span: 'half',
    });
  },

  numbers(gnomon) {
    const at = (causal, encoding = 'none') =>
      this.compute(gnomon, {causal, order: 1, encoding}).changes;
    const plain = at(true);
    return {one: hundredths(plain[0]), two: hundredths(plain[1]), masked: hundredths(at(false)[1]),
            sinusoidal: hundredths(at(true, 'sinusoidal')[0])};
  },
};
