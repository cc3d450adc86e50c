// The formula of the sinusoid, and three wrong ones.
import {format} from './shared/format.js';
import {pairFrequencies, range, tableOf} from './shared/sinusoid.js';

const width = 64, tokens = 64, pairs = width / 2, tolerance = 1e-5;

const formulas = [
  {value: 'pair', label: {en: 'exponent by pair (the paper)', zh: '按对取指数（论文）'}},
  {value: 'component', label: {en: 'exponent by component', zh: '按分量取指数'}},
  {value: 'sines', label: {en: 'a sine in every channel', zh: '每个通道都是正弦'}},
  {value: 'last', label: {en: 'pairs from 1 to C/2', zh: '对的编号从 1 到 C/2'}},
];

// The frequency of each channel.
function frequenciesOf(formula) {
  if (formula === 'component' || formula === 'sines')
    return range(width).map(c => 10000 ** (-2 * c / width));
  const begin = formula === 'last' ? 1 : 0;
  return range(width).map(c => 10000 ** (-2 * (Math.floor(c / 2) + begin) / width));
}

function measure(gnomon, formula) {
  const frequencies = frequenciesOf(formula), positions = range(tokens);
  const table = formula === 'pair' ? gnomon.sinusoidal(positions, width)
      : tableOf(gnomon, positions, frequencies, formula === 'sines' ? 'sines' : undefined);
  const radii = range(tokens * pairs).map(i => Math.hypot(table[2 * i], table[2 * i + 1]));
  return {table, least: Math.min(...radii), most: Math.max(...radii),
          longest: 2 * Math.PI / frequencies.at(-1)};
}

export default {
  name: 'exponent',
  data: [],
  controls: [
    {name: 'formula', type: 'choice', value: 'pair', options: formulas,
     label: {en: 'Formula', zh: '公式'}},
    {name: 'pair', type: 'range', min: 0, max: pairs - 1, step: 1, value: 4,
     label: {en: 'Pair of channels', zh: '通道对'}},
  ],
  breaks: {formula: 'component'},

  compute(gnomon, {formula, pair}) {
    const all = formulas.map(({value}) => measure(gnomon, value));
    const chosen = formulas.findIndex(({value}) => value === formula), {table} = all[chosen];
    const trace = range(tokens).map(
        t => [table[t * width + 2 * pair], table[t * width + 2 * pair + 1]]);
    return {table, trace, chosen,
            all: all.map(({least, most, longest}) => ({least, most, longest})),
            bound: 2 * Math.PI * 10000 ** ((width - 2) / width)};
  },

  claim({all, chosen, bound}) {
    const {least, most, longest} = all[chosen];
    return 1 - least < tolerance && most - 1 < tolerance && longest / bound - 1 < tolerance;
  },

  say({all, chosen, trace}, {pair}, language) {
    const en = language === 'en', {least, most, longest} = all[chosen];
    const isCircle = 1 - least < tolerance && most - 1 < tolerance;
    const own = trace.map(([x, y]) => Math.hypot(x, y));
    return isCircle
      ? (en ? `All ${pairs} pairs stay on the unit circle. The longest wavelength is ` +
              `${format(longest, 5)} positions.`
            : `全部 ${pairs} 对通道都在单位圆上。最长波长为 ${format(longest, 5)} 个位置。`)
      : (en ? `Pair ${pair} leaves the unit circle: its radius goes from ` +
              `${format(Math.min(...own))} to ${format(Math.max(...own))}, over all pairs from ` +
              `${format(least)} to ${format(most)}. The longest wavelength is ` +
              `${format(longest)} positions.`
            : `第 ${pair} 对通道离开单位圆：半径从 ${format(Math.min(...own))} 到 ` +
              `${format(Math.max(...own))}，所有对从 ${format(least)} 到 ${format(most)}。` +
              `最长波长为 ${format(longest)} 个位置。`);
  },

  draw(view, {table, trace, all, chosen}, {pair}, language) {
    const en = language === 'en';
    view.drawing('circle', {
      width: 220, height: 220, span: 'half',
      title: en ? `Pair ${pair}: channels ${2 * pair} and ${2 * pair + 1}, positions 0 to 63`
                : `第 ${pair} 对：通道 ${2 * pair} 和 ${2 * pair + 1}，位置 0 到 63`,
    }, pen => {
      const point = ([x, y]) => [110 + 66 * x, 110 - 66 * y];
      pen.line(10, 110, 210, 110, {colour: 'muted', width: 1});
      pen.line(110, 10, 110, 210, {colour: 'muted', width: 1});
      pen.circle(110, 110, 66, {colour: 'muted', width: 1.5, dashed: true});
      pen.path(trace.map(point), {colour: 'a', width: 1, opacity: 0.5});
      for (const one of trace) pen.circle(...point(one), 3, {colour: 'none', fill: 'a'});
      pen.circle(...point(trace[0]), 5, {colour: 'b', fill: 'b'});
      pen.text(204, 100, String(2 * pair), {size: 12, colour: 'muted'});
      pen.text(124, 16, String(2 * pair + 1), {size: 12, colour: 'muted'});
    });
    view.heatmap('table', {
      values: table, rows: tokens, columns: width, scale: 'diverging', range: [-1, 1], span: 'half',
      marks: [{row: 0, column: 2 * pair, rows: tokens, columns: 2}],
      title: en ? 'The table' : '编码表', rowTitle: en ? 'position' : '位置',
      columnTitle: en ? 'channel' : '通道',
      pick: (row, column) => ({pair: Math.floor(column / 2)}),
    });
    view.table('formulas', {
      head: en ? ['formula', 'radius of pairs', 'longest wavelength']
               : ['公式', '通道对的半径', '最长波长'],
      rows: formulas.map(({label}, i) => {
        const {least, most, longest} = all[i], [low, high] = [format(least), format(most)];
        return [(i === chosen ? '▸ ' : '') + label[language],
                low === high ? low : en ? `${low} to ${high}` : `${low} 到 ${high}`,
                format(longest, 5)];
      }),
    });
  },

  numbers(gnomon) {
    const longest = size => format(2 * Math.PI / pairFrequencies(size).at(-1), 5);
    const {least, most, longest: component} = measure(gnomon, 'component');
    // The usual code: the frequency and the angle in float32, then the sine and the cosine.
    const position = 131071, exact = [], rounded = [];
    for (const frequency of pairFrequencies(width)) {
      const angle = position * frequency;
      const single = Math.fround(position * Math.fround(frequency));
      exact.push(Math.sin(angle), Math.cos(angle));
      rounded.push(Math.sin(single), Math.cos(single));
    }
    const error = row => Math.max(...exact.map((value, c) => Math.abs(row[c] - value)));
    return {longest64: longest(64), longest128: longest(128), longest512: longest(512),
            bound: format(2 * Math.PI * 10000, 5), component: format(component, 2),
            least: format(least, 2), most: format(most),
            float32: format(error(rounded), 2),
            library: format(error(gnomon.sinusoidal([position], width)), 2)};
  },
};
