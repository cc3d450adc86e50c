// Chapter 6: the turns of each pair in training, and angles that training did not contain.
import {number} from '../web/text.js';
import {steps} from './shared/vectors.js';

const size = 128, shown = [0, 12, 24, 32, 40, 48, 56, 63];
const tokens = [2048, 4096, 8192, 32768];

export default {
  name: 'further-turns',
  data: [],
  controls: [
    {name: 'trained', type: 'choice', value: '4096',
     options: tokens.map(n => ({value: String(n), label: {en: `${n} tokens`, zh: `${n} 个词元`}})),
     label: {en: 'Trained length', zh: '训练长度'}},
    {name: 'multiple', type: 'range', min: 1, max: 8, step: 1, value: 4,
     label: {en: 'Length of the text', zh: '文本长度'},
     unit: {en: 'times the trained length', zh: '倍训练长度'}},
    {name: 'base', type: 'choice', value: '10000', options: [
      {value: '10000', label: {en: '10000 (Llama 2)', zh: '10000（Llama 2）'}},
      {value: '500000', label: {en: '500000 (Llama 3)', zh: '500000（Llama 3）'}},
      {value: '1000000', label: {en: '1000000 (Qwen2)', zh: '1000000（Qwen2）'}},
      {value: '100', label: {en: '100', zh: '100'}},
    ], label: {en: 'Base', zh: '底数'}},
  ],
  breaks: {multiple: 1},

  compute(gnomon, {trained, multiple, base}) {
    const frequencies = gnomon.encoding({kind: 'rotary', rotary_dim: size, pairing: 'halves',
                                         base: Number(base)}).frequencies();
    const length = trained * multiple, turn = 2 * Math.PI;
    const wavelengths = frequencies.map(f => turn / f);
    const seen = frequencies.map(f => Math.min(f * trained, turn));
    const reached = frequencies.map(f => Math.min(f * length, turn));
    const count = holds => frequencies.reduce((sum, _, i) => sum + (holds(i) ? 1 : 0), 0);
    return {
      wavelengths, seen, reached, length,
      unfinished: count(i => wavelengths[i] > trained),
      fresh: count(i => reached[i] - seen[i] > 1e-9),
    };
  },

  claim: ({unfinished, fresh}) => fresh > 0 && fresh === unfinished,

  say({unfinished, fresh, length}, {trained, multiple}, language) {
    if (language === 'zh')
      return `在 ${trained} 个词元的训练中，${size / 2} 对里有 ${unfinished} 对没有转完一圈。` +
             (multiple > 1 ? `在 ${length} 个词元的文本中，有 ${fresh} 对出现训练中没有的角度。`
                           : '文本不比训练长，没有新角度。');
    return `${unfinished} of ${size / 2} pairs do not complete a turn in ${trained} tokens of ` +
           `training. ` +
           (multiple > 1 ? `A text of ${length} tokens turns ${fresh} pairs to angles that ` +
                           'training did not contain.'
                         : 'The text is as long as training, so no angle is new.');
  },

  draw(view, {wavelengths, seen, reached, length}, {trained}, language) {
    const zh = language === 'zh', radius = 34;
    view.drawing('dials', {width: 400, height: 224, title: zh
        ? '八对元素转过的角度：训练中（蓝）和训练之外（红）'
        : 'Angles of eight pairs: in training (blue), beyond training (red)'}, pen => {
      shown.forEach((pair, i) => {
        const x = 50 + 100 * (i % 4), y = 42 + 112 * Math.floor(i / 4);
        const arc = (from, to, colour) => {
          const points = [[x, y]];
          for (let step = 0; step <= 48; ++step) {
            const angle = from + (to - from) * step / 48;
            points.push([x + radius * Math.cos(angle), y - radius * Math.sin(angle)]);
          }
          pen.path(points, {colour: 'none', fill: colour, closed: true, opacity: 0.75});
        };
        arc(0, seen[pair], 'a');
        if (reached[pair] > seen[pair]) arc(seen[pair], reached[pair], 'bad');
        pen.circle(x, y, radius, {colour: 'muted', width: 1});
        pen.text(x, y + radius + 16, zh ? `第 ${pair} 对` : `pair ${pair}`,
                 {size: 12, colour: 'muted'});
      });
    });
    view.lines('waves', {
      title: zh ? '各对的波长' : 'Wavelengths of the pairs', yLog: true, height: 250,
      xTitle: zh ? '元素对' : 'pair', yTitle: zh ? '词元' : 'tokens',
      series: [{x: steps(size / 2), y: wavelengths}],
      marks: [{y: Number(trained), label: zh ? '训练长度' : 'trained length'},
              ...(length > trained ? [{y: length, label: zh ? '文本长度' : 'text length'}] : [])],
    });
  },

  numbers(gnomon) {
    const at = (base, trained) =>
        String(this.compute(gnomon, {trained, multiple: 4, base}).unfinished);
    const plain = this.compute(gnomon, {trained: 4096, multiple: 4, base: '10000'});
    return {
      unfinished: at('10000', 4096), large: at('500000', 4096), llama3: at('500000', 8192),
      slowest: number(plain.wavelengths[size / 2 - 1], 5),
    };
  },
};
