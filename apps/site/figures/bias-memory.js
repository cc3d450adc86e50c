// Memory of a bias: the matrix of all scores, the values by distance, the parameters.
import {say} from '../rows.js';
import {number} from '../web/text.js';

const heads = 8, width = 512;

function bytes(size) {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  const power = Math.max(0, units.findLastIndex((_, i) => size >= 1000 ** i));
  return `${number(size / 1000 ** power)} ${units[power]}`;
}

const countOf = parameters => parameters.reduce((sum, one) => sum + one.rows * one.columns, 0);

export default {
  name: 'bias-memory',
  data: [],
  controls: [
    {name: 'exponent', type: 'range', min: 6, max: 17, step: 1, value: 15,
     label: {en: 'Length: 2 to the power of', zh: '长度为 2 的幂，指数'}},
  ],
  breaks: {exponent: 8},

  compute(gnomon, {exponent}) {
    const counts = spec => {
      const encoding = gnomon.encoding(spec), count = countOf(encoding.parameters);
      encoding.free();
      return count;
    };
    const t5 = counts({kind: 't5', heads, direction: 'causal', buckets: 32, max_distance: 128});
    const clipped = counts({kind: 'clipped', heads, left: 16, right: 16});
    const lengths = Array.from({length: 12}, (_, i) => 2 ** (6 + i));
    const at = length => ({
      // float32 [H, T, T]; float64 [H, 2 T - 1]; float32 parameters.
      matrix: 4 * heads * length ** 2, strip: 8 * heads * (2 * length - 1),
      table: 4 * counts({kind: 'learned', rows: length, width, offset: 0}),
      t5: 4 * t5, clipped: 4 * clipped, alibi: 8 * gnomon.alibiSlopes(heads).length,
    });
    return {length: 2 ** exponent, lengths, all: lengths.map(at), now: at(2 ** exponent),
            clipped};
  },

  claim: ({now}) => now.matrix > 1000 * now.strip,

  say({length, now}, _, language) {
    return say(language,
               `For ${length} tokens and ${heads} heads the matrix of the bias takes ` +
               `${bytes(now.matrix)}, the values by distance ${bytes(now.strip)}, and the ` +
               `parameters of T5 ${bytes(now.t5)}.`,
               `${length} 个词元、${heads} 个头时，偏置矩阵占 ${bytes(now.matrix)}，按距离存放的数占 ` +
               `${bytes(now.strip)}，T5 的参数占 ${bytes(now.t5)}。`);
  },

  draw(view, {length, lengths, all}, _, language) {
    const line = (key, en, zh, dashed) => (
        {name: say(language, en, zh), x: lengths, y: all.map(one => one[key]), dashed});
    view.lines('memory', {
      series: [
        line('matrix', 'matrix [H, T, T], float32', '矩阵 [H, T, T]，float32'),
        line('strip', 'values by distance [H, 2T − 1], float64', '按距离存放 [H, 2T − 1]，float64'),
        line('table', 'learned table [T, 512]', '可学习位置表 [T, 512]', true),
        line('t5', 'parameters of T5', 'T5 的参数', true),
        line('clipped', 'parameters clipped at 16', '截断于 16 的参数', true),
        line('alibi', 'slopes of ALiBi', 'ALiBi 的斜率', true),
      ],
      xLog: true, yLog: true, height: 320, marks: [{x: length}],
      title: say(language, 'Memory for 8 heads', '8 个头所需的内存'),
      xTitle: say(language, 'length (tokens)', '长度（词元）'),
      yTitle: say(language, 'bytes', '字节'),
    });
  },

  numbers(gnomon) {
    const {now, clipped} = this.compute(gnomon, {exponent: 15});
    return {matrix: bytes(now.matrix).split(' ')[0], strip: bytes(now.strip).split(' ')[0],
            clipped: String(clipped)};
  },
};
