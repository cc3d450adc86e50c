// ALiBi's slopes for any number of heads, beside the formula that is often copied.
import {fixed, say} from '../rows.js';

const formula = heads => Array.from({length: heads}, (_, h) => 2 ** (-8 * (h + 1) / heads));

export default {
  name: 'bias-slopes',
  data: [],
  controls: [
    {name: 'heads', type: 'range', min: 1, max: 32, step: 1, value: 12,
     label: {en: 'Heads', zh: '注意力头数'}},
  ],
  breaks: {heads: 8},

  compute(gnomon, {heads}) {
    const slopes = [...gnomon.alibiSlopes(heads)], copied = formula(heads);
    const different = slopes.filter((slope, h) => Math.abs(slope - copied[h]) > 1e-9).length;
    return {slopes, copied, different};
  },

  claim: ({different}) => different > 0,

  say({different}, {heads}, language) {
    return different === 0
        ? say(language,
              `For ${heads} ${heads === 1 ? 'head' : 'heads'} both have the same slopes: ` +
              `${heads} is a power of two.`,
              `${heads} 个头时两者斜率相同：${heads} 是 2 的幂。`)
        : say(language,
              `For ${heads} heads ${different} slopes differ from 2^(−8h/${heads}): the released ` +
              'models take those of the power of two below, and then every second one of the next.',
              `${heads} 个头时有 ${different} 个斜率不同于 2^(−8h/${heads})：已发布的模型先取较小的 2 的` +
              '幂对应的斜率，再从下一个 2 的幂中每隔一个取一个。');
  },

  draw(view, {slopes, copied}, {heads}, language) {
    const x = slopes.map((_, h) => h + 1);
    view.lines('slopes', {
      series: [
        {name: say(language, 'released models', '已发布的模型'), x, y: slopes.map(one => 1 / one),
         points: 'only'},
        {name: `2^(8h/${heads})`, x, y: copied.map(one => 1 / one), dashed: true},
      ],
      yLog: true,
      title: say(language, 'Distance that costs a score of 1, by head (1 / slope)',
                 '使分数降低 1 的距离（斜率的倒数）'),
      xTitle: say(language, 'head h', '头 h'), yTitle: say(language, '1 / slope', '1 / 斜率'),
    });
  },

  numbers(gnomon) {
    const {slopes, copied} = this.compute(gnomon, {heads: 12});
    return {ninth: fixed(slopes[8], 3), copied: fixed(copied[8], 4)};
  },
};
