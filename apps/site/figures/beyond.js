// Beyond the training length: the table has rows, with values that training did not contain.
import {format} from './shared/format.js';
import {pairFrequencies, range} from './shared/sinusoid.js';

const width = 512, half = width / 2, sampled = 128, margin = 0.05;
const names = {sinusoidal: {en: 'sinusoidal', zh: '正弦'}, rotary: {en: 'RoPE', zh: 'RoPE'},
               alibi: {en: 'ALiBi', zh: 'ALiBi'}};

// The deviation and the range of each channel over the positions 0 .. trained - 1.
function channelsOf(gnomon, trained, base) {
  const table = gnomon.sinusoidal(range(trained), width, {base});
  return range(width).map(c => {
    let sum = 0, squares = 0, low = Infinity, high = -Infinity;
    for (let t = 0; t < trained; ++t) {
      const value = table[t * width + c];
      sum += value;
      squares += value * value;
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
    const mean = sum / trained;
    return {low, high, deviation: Math.sqrt(Math.max(0, squares / trained - mean * mean))};
  });
}

export default {
  name: 'beyond',
  data: ['order'],
  controls: [
    {name: 'trained', type: 'choice', value: 128, label: {en: 'Training length T', zh: '训练长度 T'},
     options: [50, 128, 512, 2048].map(
         value => ({value, label: {en: String(value), zh: String(value)}}))},
    {name: 'base', type: 'choice', value: 10000, label: {en: 'Base', zh: '底数'},
     options: [2, 100, 10000, 500000].map(
         value => ({value, label: {en: String(value), zh: String(value)}}))},
  ],
  breaks: {base: 2},

  compute(gnomon, {trained, base}, {order}) {
    const channels = channelsOf(gnomon, trained, base);
    const positions = range(sampled, 1).map(i => trained - 1 + Math.round(i * trained / sampled));
    const later = gnomon.sinusoidal(positions, width, {base});
    // A channel is new if a later value is outside its range in training by the margin.
    const isNew = channels.map(({low, high}, c) => positions.some((_, t) => {
      const value = later[t * width + c];
      return value < low - margin || value > high + margin;
    }));
    return {
      deviations: channels.map(one => one.deviation),
      turns: pairFrequencies(width, base).map(one => trained * one / (2 * Math.PI)),
      news: isNew.filter(Boolean).length,
      constant: channels.slice(half).filter(one => one.deviation < 0.1).length,
      lengths: order.lengths, seeds: order.seeds, measured: order.trained,
    };
  },

  claim({news, lengths: {sinusoidal: {bits, margin: error}}}) {
    return news > 0 && bits[1] - error[1] > bits[0] + error[0];
  },

  say({news, constant, turns}, {trained}, language) {
    const en = language === 'en', open = turns.filter(one => one < 1).length;
    return en
      ? `${open} of ${half} pairs do not complete a turn in ${trained} positions. From position ` +
        `${trained} to ${2 * trained - 1}, ${news} of ${width} channels leave their range of ` +
        `training by more than ${margin}. ${constant} of the ${half} later channels have a ` +
        'deviation below 0.1 in training.'
      : `${half} 对中有 ${open} 对在 ${trained} 个位置内转不满一圈。从位置 ${trained} 到 ` +
        `${2 * trained - 1}，${width} 个通道中有 ${news} 个超出训练时的取值范围 ${margin} 以上。` +
        `后 ${half} 个通道中有 ${constant} 个在训练范围内的标准差小于 0.1。`;
  },

  draw(view, {deviations, turns, lengths, measured, seeds}, {trained}, language) {
    const en = language === 'en', first = turns.findIndex(one => one < 1);
    const title = en ? `Deviation of each channel over positions 0 to ${trained - 1}`
                     : `各通道在位置 0 到 ${trained - 1} 上的标准差`;
    view.lines('channels', {
      title, xTitle: en ? 'channel' : '通道', yTitle: en ? 'deviation' : '标准差', span: 'half',
      series: [0, 1].map(odd => ({
        name: odd ? (en ? 'cosines' : '余弦') : (en ? 'sines' : '正弦'),
        x: range(half).map(pair => 2 * pair + odd),
        y: range(half).map(pair => deviations[2 * pair + odd])})),
      marks: first < 0 ? [] : [{x: 2 * first, label: en ? 'less than a turn' : '不满一圈'}],
    });
    view.lines('loss', {
      title: en ? `Loss of models trained at ${measured} bytes (mean of ${seeds} seeds)`
                : `在 ${measured} 字节上训练的模型的损失（${seeds} 个种子的平均）`,
      xTitle: en ? 'context length' : '上下文长度', yTitle: en ? 'bits per byte' : '比特/字节',
      xLog: true, span: 'half',
      series: Object.entries(lengths).map(([name, {length, bits, margin: error}]) => ({
        name: names[name][language], x: length, y: bits, points: true,
        low: bits.map((one, i) => one - error[i]), high: bits.map((one, i) => one + error[i])})),
      marks: [{x: measured, label: 'T'}],
    });
  },

  numbers(gnomon, {order}) {
    const constant = trained => channelsOf(gnomon, trained, 10000).slice(half)
        .filter(one => one.deviation < 0.1).length;
    const {news} = this.compute(gnomon, {trained: 128, base: 10000}, {order});
    const loss = (name, at, digits = 2) => order.lengths[name].bits[at].toFixed(digits);
    return {constant50: String(constant(50)), constant512: String(constant(512)),
            constant4096: String(constant(4096)), half: String(half), news: String(news),
            trained: loss('sinusoidal', 0), twice: loss('sinusoidal', 1), rotary: loss('rotary', 0),
            rotaryTwice: loss('rotary', 1), alibi: loss('alibi', 0, 3),
            alibiTwice: loss('alibi', 1, 3)};
  },
};
