// From the digits of binary numbers to the sinusoid.
import {format} from './shared/format.js';
import {range} from './shared/sinusoid.js';

const tokens = 64, tolerance = 1e-6;

export default {
  name: 'binary-sinusoid',
  data: [],
  controls: [
    {name: 'mix', type: 'range', min: 0, max: 1, step: 0.05, value: 0,
     label: {en: 'From binary digits (0) to the sinusoid (1)', zh: '从二进制位 (0) 到正弦 (1)'}},
    {name: 'width', type: 'choice', value: 16, label: {en: 'Width C', zh: '宽度 C'},
     options: [16, 32, 64].map(value => ({value, label: {en: String(value), zh: String(value)}}))},
    {name: 'spacing', type: 'choice', value: 'geometric', label: {en: 'Frequencies', zh: '频率'},
     options: [
       {value: 'geometric', label: {en: 'a geometric sequence', zh: '等比数列'}},
       {value: 'harmonic', label: {en: 'multiples of the lowest (Fourier series)',
                                   zh: '最低频率的整数倍（傅里叶级数）'}},
     ]},
  ],
  breaks: {spacing: 'harmonic'},

  compute(gnomon, {mix, width, spacing}) {
    const pairs = width / 2, blend = (a, b) => a ** (1 - mix) * b ** mix;
    const first = blend(2, 2 * Math.PI), factor = blend(2, 10000 ** (2 / width));
    const wavelengths = range(pairs).map(
        j => spacing === 'geometric' ? first * factor ** j : first * pairs / (pairs - j));
    const frequencies = wavelengths.map(one => 2 * Math.PI / one);
    const {cos, sin} = gnomon.cosSin(range(tokens), frequencies);
    // Digit j of p is 1 in the second half of its period. Half a position keeps p off the edges.
    const values = sin.map((value, i) => {
      const phase = (1 - mix) * Math.PI * (1 + 1 / wavelengths[i % pairs]);
      const wave = value * Math.cos(phase) + cos[i] * Math.sin(phase);
      return (1 - mix) * Math.sign(wave) + mix * wave;
    });
    const ratios = range(pairs - 1).map(j => wavelengths[j + 1] / wavelengths[j]);
    const isGeometric = spacing === 'geometric';
    const table = gnomon.sinusoidal(range(tokens), width);
    const expected = (p, j) => mix === 1 ? table[p * width + 2 * j]
                                         : 2 * (Math.floor(p / 2 ** j) % 2) - 1;
    const error = Math.max(...values.map(
        (value, i) => Math.abs(value - expected(Math.floor(i / pairs), i % pairs))));
    return {values, wavelengths, least: Math.min(...ratios), most: Math.max(...ratios),
            isEnd: isGeometric && (mix === 0 || mix === 1) && error < tolerance};
  },

  claim: ({least, most}) => most / least < 1 + tolerance,

  say({wavelengths, least, most, isEnd}, {mix}, language) {
    const en = language === 'en';
    const names = mix === 0
        ? {en: 'These are the binary digits of the positions. ', zh: '这些是位置的二进制位。'}
        : {en: 'These are the sines of the sinusoidal table. ', zh: '这些是正弦位置编码表中的正弦列。'};
    const shortest = format(wavelengths[0]), longest = format(wavelengths.at(-1));
    const factor = most / least < 1 + tolerance
        ? (en ? `each is ${format(most)} times the one before`
              : `每一列是前一列的 ${format(most)} 倍`)
        : (en ? `the factor from one to the next varies from ${format(least)} to ${format(most)}`
              : `相邻两列的倍数从 ${format(least)} 到 ${format(most)} 不等`);
    return (isEnd ? names[language] : '') + (en
      ? `The wavelengths go from ${shortest} to ${longest} positions; ${factor}.`
      : `波长从 ${shortest} 到 ${longest} 个位置；${factor}。`);
  },

  draw(view, {values, wavelengths}, {width}, language) {
    const en = language === 'en', pairs = width / 2;
    view.heatmap('values', {
      values, rows: tokens, columns: pairs, scale: 'diverging', range: [-1, 1], span: 'half',
      title: en ? 'Positions, and their digits or sines' : '位置及其二进制位或正弦值',
      rowTitle: en ? 'position' : '位置', columnTitle: en ? 'column' : '列',
    });
    view.lines('wavelengths', {
      title: en ? 'Wavelength of each column' : '各列的波长', span: 'half',
      xTitle: en ? 'column' : '列', yTitle: en ? 'positions' : '位置数', yLog: true,
      series: [{name: en ? 'wavelength' : '波长', x: range(pairs), y: wavelengths, points: true}],
    });
  },

  numbers() {
    const factor = width => format(10000 ** (2 / width));
    return {factor16: factor(16), factor64: factor(64), factor128: factor(128)};
  },
};
