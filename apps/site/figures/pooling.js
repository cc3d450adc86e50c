// Outputs move with their words; a mean of the outputs does not move.
import {change, planOf, projections, queriesKeysValues, reorder, vectors, withTable}
  from './shared/layer.js';
import {hundredths, percent} from './shared/format.js';

const width = 16, heads = 2, rounding = 1e-5;
const words = {en: ['dog', 'bites', 'young', 'man'], zh: ['狗', '咬', '年轻', '人']};
const tokens = words.en.length;

// The orders of 0 .. tokens - 1, the given one first.
function permutations(items) {
  if (items.length < 2) return [items];
  return items.flatMap((one, i) =>
    permutations(items.filter((_, at) => at !== i)).map(rest => [one, ...rest]));
}
const orders = permutations([...Array(tokens).keys()]);

const readouts = {
  mean: y => pool(y, column => column.reduce((sum, one) => sum + one, 0) / column.length),
  maximum: y => pool(y, column => Math.max(...column)),
  last: y => y.slice(-width),
};

function pool(y, of) {
  return Float32Array.from({length: width}, (_, c) => of(y.filter((_, i) => i % width === c)));
}

export default {
  name: 'pooling',
  data: [],
  controls: [
    {name: 'order', type: 'range', min: 1, max: orders.length, step: 1, value: 18,
     label: {en: 'Order of the words', zh: '词的顺序'},
     unit: {en: `of ${orders.length}`, zh: `/ ${orders.length}`}},
    {name: 'readout', type: 'choice', value: 'mean', label: {en: 'Read', zh: '读取'},
     options: [
       {value: 'mean', label: {en: 'the mean of all outputs', zh: '所有输出的平均'}},
       {value: 'maximum', label: {en: 'the maximum of all outputs', zh: '所有输出的最大值'}},
       {value: 'last', label: {en: 'the output at the last place', zh: '最后一个位置的输出'}},
     ]},
    {name: 'encoding', type: 'choice', value: 'none',
     label: {en: 'Position encoding', zh: '位置编码'},
     options: [
       {value: 'none', label: {en: 'none', zh: '无'}},
       {value: 'sinusoidal', label: {en: 'sinusoidal', zh: '正弦'}},
       {value: 'alibi', label: {en: 'ALiBi', zh: 'ALiBi'}},
     ]},
  ],
  breaks: {readout: 'last'},

  compute(gnomon, {order: number, readout, encoding}) {
    // The vectors belong to the English words, so that both languages show the same numbers.
    const x = vectors(gnomon, words.en, width), matrices = projections(gnomon, width, 21);
    const plan = planOf(gnomon, encoding, {width, heads, tokens, causal: false});
    const outputs = orders.map(order => {
      const [q, k, v] = queriesKeysValues(
          withTable(plan, reorder(x, order, width), width), matrices, width);
      return plan.attention(q, k, v, {heads});
    });
    plan.free();
    const read = outputs.map(readouts[readout]), order = orders[number - 1];
    const moved = outputs.map((y, i) => change(y, reorder(outputs[0], orders[i], width)));
    return {
      order, first: outputs[0], second: outputs[number - 1],
      readFirst: read[0], readSecond: read[number - 1],
      moved: Math.max(...moved),                                   // over all orders
      readChange: Math.max(...read.map(one => change(one, read[0]))),
    };
  },

  claim: ({readChange}) => readChange < rounding,

  say({moved, readChange}, {readout}, language) {
    const en = language === 'en', count = orders.length;
    const name = {
      mean: {en: 'The mean of the outputs', zh: '输出的平均'},
      maximum: {en: 'The maximum of the outputs', zh: '输出的最大值'},
      last: {en: 'The output at the last place', zh: '最后一个位置的输出'},
    }[readout][language];
    const rows = moved < rounding
        ? (en ? `In all ${count} orders, each word takes its output with it.`
              : `在全部 ${count} 种顺序中，每个词都带着自己的输出移动。`)
        : (en ? `The outputs of the words change with the order, by up to ${percent(moved)}.`
              : `词的输出随顺序改变，最多 ${percent(moved)}。`);
    const one = readChange < rounding
        ? (en ? ` ${name} is the same in all of them.` : `${name}在所有顺序中都相同。`)
        : (en ? ` ${name} depends on the order: it changes by up to ${percent(readChange)}.`
              : `${name}取决于顺序：最多改变 ${percent(readChange)}。`);
    return rows + one;
  },

  draw(view, {order, first, second, readFirst, readSecond}, {readout}, language) {
    const en = language === 'en', names = words[language];
    const size = Math.max(...first.map(Math.abs), ...second.map(Math.abs));
    const axes = {rows: tokens, columns: width, scale: 'diverging', range: [-size, size],
                  rowTitle: en ? 'word' : '词', columnTitle: en ? 'channel' : '通道', span: 'half'};
    view.heatmap('first', {...axes, values: first, rowLabels: names,
                           title: en ? 'Outputs, first order' : '原顺序的输出'});
    view.heatmap('second', {...axes, values: second, rowLabels: order.map(t => names[t]),
                            title: en ? 'Outputs, chosen order' : '所选顺序的输出'});
    const x = [...Array(width).keys()];
    view.lines('read', {
      title: {
        mean: {en: 'Mean of the outputs', zh: '输出的平均'},
        maximum: {en: 'Maximum of the outputs', zh: '输出的最大值'},
        last: {en: 'Output at the last place', zh: '最后一个位置的输出'},
      }[readout][language],
      xTitle: en ? 'channel' : '通道', yTitle: en ? 'value' : '值', height: 220,
      series: [
        {name: en ? 'first order' : '原顺序', x, y: [...readFirst]},
        {name: en ? 'chosen order' : '所选顺序', x, y: [...readSecond], dashed: true},
      ],
    });
  },

  numbers(gnomon) {
    const at = (readout, encoding = 'none') =>
      this.compute(gnomon, {order: 1, readout, encoding}).readChange;
    return {orders: String(orders.length), mean: hundredths(at('mean')), last: hundredths(at('last')),
            sinusoidal: hundredths(at('mean', 'sinusoidal'))};
  },
};
