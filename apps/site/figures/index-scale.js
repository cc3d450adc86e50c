// The index as an encoding beside the sinusoid: size of the rows, and distance of neighbours.
import {format, hundredths, percent} from './shared/format.js';
import {dot, range, rowOf} from './shared/sinusoid.js';

const schemes = [
  {value: 'sinusoidal', label: {en: 'sinusoidal', zh: '正弦'}},
  {value: 'raw', label: {en: 'index', zh: '序号'}},
  {value: 'trained', label: {en: 'index / T', zh: '序号 / T'}},
  {value: 'fixed', label: {en: 'index / 10000', zh: '序号 / 10000'}},
];
const longest = 4096, deviation = 0.02, samples = 64;
// Positions at equal steps of the logarithm.
const positions = [...new Set(range(49).map(i => Math.round(2 ** (i / 4))))];

// Norms of the rows, and distances to the next row, at `positions`; the row of a position.
function sinusoidRows(gnomon, width) {
  const both = positions.flatMap(p => [p, p + 1]), table = gnomon.sinusoidal(both, width);
  const norms = [], steps = [];
  positions.forEach((_, i) => {
    const row = rowOf(table, 2 * i, width), next = rowOf(table, 2 * i + 1, width);
    norms.push(Math.hypot(...row));
    steps.push(Math.hypot(...row.map((value, c) => next[c] - value)));
  });
  return {norms, steps, row: i => rowOf(table, 2 * i, width)};
}

// An index has the same value in each channel, so one channel gives the norm of all.
function indexRows(gnomon, width, spec) {
  const encoding = gnomon.encoding({kind: 'index', width: 1, channels: 'all', ...spec});
  const plan = encoding.plan({keys: longest + 2}), values = plan.table(longest + 2, 1);
  plan.free();
  encoding.free();
  return {norms: positions.map(p => values[p] * Math.sqrt(width)),
          steps: positions.map(p => (values[p + 1] - values[p]) * Math.sqrt(width)),
          row: i => new Float32Array(width).fill(values[positions[i]])};
}

// The root mean square of the norms of some vectors [N, C].
const meanNorm = vectors => Math.sqrt(dot(vectors, vectors) / samples);

const ratio = values => Math.max(...values) / Math.min(...values);

export default {
  name: 'index-scale',
  data: [],
  controls: [
    {name: 'scheme', type: 'choice', value: 'sinusoidal', options: schemes,
     label: {en: 'Encoding', zh: '编码'}},
    {name: 'trained', type: 'range', min: 16, max: 1024, step: 16, value: 128,
     label: {en: 'Training length T', zh: '训练长度 T'}},
    {name: 'width', type: 'choice', value: 512, label: {en: 'Width C', zh: '宽度 C'},
     options: [64, 512].map(value => ({value, label: {en: String(value), zh: String(value)}}))},
    {name: 'scaled', type: 'toggle', value: false,
     label: {en: 'Token vectors times √C', zh: '词元向量乘以 √C'}},
  ],
  breaks: {scheme: 'raw'},

  compute(gnomon, {scheme, trained, width, scaled}) {
    const rows = [
      sinusoidRows(gnomon, width),
      indexRows(gnomon, width, {unit: 'raw', length: 0}),
      indexRows(gnomon, width, {unit: 'normalised', length: trained + 1}),
      indexRows(gnomon, width, {unit: 'normalised', length: 10001}),
    ];
    const chosen = schemes.findIndex(({value}) => value === scheme);
    const {norms, steps, row} = rows[chosen];
    const factor = deviation * (scaled ? Math.sqrt(width) : 1);
    const tokens = gnomon.normal(samples * width, 61).map(value => factor * value);
    const at = positions.findLastIndex(p => p <= trained), added = row(at);
    return {
      rows: rows.map(({norms, steps}) => ({norms, shares: steps.map((s, i) => s / norms[i])})),
      chosen, token: meanNorm(tokens), position: norms[at],
      sum: meanNorm(tokens.map((value, i) => value + added[i % width])),
      place: positions[at], share: steps[at] / norms[at],
      normRatio: ratio(norms), shareRatio: ratio(steps.map((one, i) => one / norms[i])),
    };
  },

  claim: ({normRatio, shareRatio}) => normRatio < 1.01 && shareRatio < 1.01,

  say({chosen, token, position, sum, place, share, normRatio}, {scaled}, language) {
    const en = language === 'en', name = schemes[chosen].label[language];
    const size = normRatio < 1.01
        ? (en ? `All rows have the norm ${format(position)}.` : `所有行的范数都是 ${format(position)}。`)
        : (en ? `The row of position ${place} has the norm ${format(position)}; the norms up to ` +
                `position ${longest} differ by a factor of ${format(normRatio)}.`
              : `位置 ${place} 的行范数为 ${format(position)}；到位置 ${longest} 为止，` +
                `范数相差 ${format(normRatio)} 倍。`);
    return en
      ? `${name[0].toUpperCase()}${name.slice(1)}: ${size} A token vector of deviation ` +
        `${deviation}${scaled ? ' times √C' : ''} has the norm ${format(token)}; its sum with ` +
        `the row of position ${place} has the norm ${format(sum)}. There, neighbours differ by ` +
        `${percent(share)} of the norm of the row.`
      : `${name}：${size}标准差为 ${deviation} ${scaled ? '并乘以 √C ' : ''}的词元向量范数为 ` +
        `${format(token)}，与位置 ${place} 的行相加后为 ${format(sum)}。那里相邻两行的差是行范数的 ` +
        `${percent(share)}。`;
  },

  draw(view, {rows, chosen, token, position, sum, place}, {trained}, language) {
    const en = language === 'en';
    const series = pick => rows.map((row, i) => ({
      name: schemes[i].label[language], x: positions, y: pick(row), dashed: i !== chosen}));
    view.lines('norms', {
      title: en ? 'Norm of the row of a position' : '各位置的行范数',
      xTitle: en ? 'position' : '位置', yTitle: en ? 'norm' : '范数', xLog: true, yLog: true,
      series: series(row => row.norms),
      marks: [{y: token, label: en ? 'norm of a token' : '词元的范数'},
              {x: trained, label: 'T'}],
    });
    view.bars('sum', {
      title: en ? `Norms at position ${place}` : `位置 ${place} 处的范数`,
      bars: [{name: en ? 'token' : '词元', value: token, colour: 'b'},
             {name: en ? 'position' : '位置', value: position},
             {name: en ? 'sum' : '和', value: sum, colour: 'c'}],
    });
    view.lines('shares', {
      title: en ? 'Distance of neighbours, relative to the norm' : '相邻两行的距离（相对于范数）',
      xTitle: en ? 'position' : '位置', xLog: true, yLog: true,
      series: series(row => row.shares), marks: [{x: trained, label: 'T'}],
    });
  },

  numbers(gnomon) {
    const at = settings => this.compute(
        gnomon, {scheme: 'raw', trained: 128, width: 512, scaled: false, ...settings});
    const raw = at({}), scaled = at({scaled: true}), sinusoid = at({scheme: 'sinusoidal'});
    return {token: format(raw.token, 2), tokenScaled: format(scaled.token, 2),
            position: format(sinusoid.position), sum: format(sinusoid.sum),
            sumScaled: format(at({scheme: 'sinusoidal', scaled: true}).sum, 2),
            raw: format(raw.position), rawShare: hundredths(raw.share), share: hundredths(sinusoid.share),
            times: format(sinusoid.position / sinusoid.token, 2)};
  },
};
