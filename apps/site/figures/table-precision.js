// Errors of a sinusoidal table in float32, for two ways to compute its frequencies.
import {say} from '../rows.js';
import {number} from '../web/text.js';

const f32 = Math.fround;
// The frequencies of the pairs: exact, exp(2i (-ln 10000 / width)) and 1 / 10000^(2i / width), the
// last two with each operation rounded to float32.
function frequencies(width) {
  const pairs = [...Array(width / 2).keys()], step = f32(-Math.log(10000) / width);
  return {
    exact: pairs.map(i => 10000 ** (-2 * i / width)),
    exponential: pairs.map(i => f32(Math.exp(f32(2 * i * step)))),
    power: pairs.map(i => f32(1 / f32(10000 ** f32(2 * i / width)))),
  };
}

// The largest error of sines and cosines at one position with float32 angles.
function errorAt(position, rounded, exact) {
  let most = 0;
  for (let i = 0; i < exact.length; ++i) {
    const angle = f32(position * rounded[i]), truth = position * exact[i];
    most = Math.max(most, Math.abs(f32(Math.sin(angle)) - Math.sin(truth)),
                    Math.abs(f32(Math.cos(angle)) - Math.cos(truth)));
  }
  return most;
}

// The same for the table of the library.
function errorsOf(gnomon, positions, exact) {
  const width = 2 * exact.length;
  const table = gnomon.sinusoidal(positions, width, {layout: 'interleaved'});
  return positions.map((position, row) => {
    let most = 0;
    for (let i = 0; i < exact.length; ++i) {
      const truth = position * exact[i], at = row * width + 2 * i;
      most = Math.max(most, Math.abs(table[at] - Math.sin(truth)),
                      Math.abs(table[at + 1] - Math.cos(truth)));
    }
    return most;
  });
}

const largest = values => {
  let most = 0;
  return values.map(value => most = Math.max(most, value));
};

function compare(gnomon, positions, width) {
  const {exact, exponential, power} = frequencies(width);
  return {
    positions,
    exponential: largest(positions.map(p => errorAt(p, exponential, exact))),
    power: largest(positions.map(p => errorAt(p, power, exact))),
    library: largest(errorsOf(gnomon, positions, exact)),
  };
}

export default {
  name: 'table-precision',
  data: [],
  controls: [
    {name: 'exponent', type: 'range', min: 1, max: 17, step: 1, value: 13,
     label: {en: 'Positions up to 2 to the power of', zh: '位置的上限为 2 的幂，指数'}},
  ],
  breaks: {exponent: 1},

  compute(gnomon, {exponent}) {
    const last = 2 ** exponent, count = 160;
    const positions = [...new Set(Array.from(
        {length: count}, (_, i) => Math.round(last ** (i / (count - 1)))))];
    return compare(gnomon, positions, 64);
  },

  claim({exponential, power, library}) {
    const a = exponential.at(-1), b = power.at(-1), c = library.at(-1);
    return Math.max(a, b) < 4 * Math.min(a, b) && Math.min(a, b) > 100 * c;
  },

  say({positions, exponential, power, library}, _, language) {
    const [a, b, c] = [exponential, power, library].map(one => number(one.at(-1), 2));
    return say(language,
               `Up to position ${positions.at(-1)} the largest error is ${a} with the ` +
               `exponential, ${b} with the power, and ${c} in the library.`,
               `到位置 ${positions.at(-1)} 为止，最大误差在指数写法下为 ${a}，在幂写法下为 ${b}，` +
               `库的结果为 ${c}。`);
  },

  draw(view, {positions, exponential, power, library}, _, language) {
    view.lines('errors', {
      series: [
        {name: say(language, 'exp(−log) in float32', 'float32，exp(−log)'), x: positions,
         y: exponential},
        {name: say(language, 'power in float32', 'float32，幂'), x: positions, y: power,
         dashed: true},
        {name: 'Gnomon', x: positions, y: library},
      ],
      xLog: true, yLog: true,
      title: say(language, 'Largest error of a table of 64 channels up to a position',
                 '64 通道的表在某位置之前的最大误差'),
      xTitle: say(language, 'position', '位置'), yTitle: say(language, 'error', '误差'),
    });
  },

  numbers(gnomon) {
    const all = compare(gnomon, [...Array(5000).keys()], 512);
    return {
      exponential: number(all.exponential.at(-1), 2), power: number(all.power.at(-1), 2),
      library: number(all.library.at(-1), 2),
      lowest: number(frequencies(512).exact.at(-1), 3),
    };
  },
};
