// Chapter 6: scores at distances that training did not contain.
import {number} from '../web/text.js';
import {choices, scaledRotary} from './shared/scalings.js';
import {repeated, steps} from './shared/vectors.js';

const size = 64, pairs = size / 2, trained = 128;

// The scores that training asks for: weights proportional to 1 / (1 + distance).
const target = distance => 3 - Math.log1p(distance);

// Solves (B' B + penalty I) x = B' y by Cholesky's factorization. B: [rows, columns].
function fit(B, columns, y, penalty) {
  const rows = y.length, A = new Float64Array(columns * columns), x = new Float64Array(columns);
  for (let r = 0; r < rows; ++r)
    for (let i = 0, at = r * columns; i < columns; ++i) {
      x[i] += B[at + i] * y[r];
      for (let j = 0; j <= i; ++j) A[i * columns + j] += B[at + i] * B[at + j];
    }
  for (let i = 0; i < columns; ++i) A[i * columns + i] += penalty;
  for (let j = 0; j < columns; ++j)
    for (let i = j; i < columns; ++i) {
      let sum = A[i * columns + j];
      for (let k = 0; k < j; ++k) sum -= A[i * columns + k] * A[j * columns + k];
      A[i * columns + j] = i === j ? Math.sqrt(sum) : sum / A[j * columns + j];
    }
  for (let i = 0; i < columns; ++i) {
    for (let k = 0; k < i; ++k) x[i] -= A[i * columns + k] * x[k];
    x[i] /= A[i * columns + i];
  }
  for (let i = columns - 1; i >= 0; --i) {
    for (let k = i + 1; k < columns; ++k) x[i] -= A[k * columns + i] * x[k];
    x[i] /= A[i * columns + i];
  }
  return x;
}

// A query and a key whose rotated product follows the target at the trained distances. Each pair of
// the query is (1, 0): at distance d the product with the key's pair (a, b) is a cos + b sin.
function trainedHead(gnomon, penalty) {
  const frequencies = gnomon.encoding({kind: 'rotary', rotary_dim: size, pairing: 'halves'})
                          .frequencies();
  const {cos, sin} = gnomon.cosSin(steps(trained), frequencies);
  const B = new Float64Array(trained * size);
  for (let d = 0; d < trained; ++d)
    for (let i = 0; i < pairs; ++i) {
      B[d * size + i] = cos[d * pairs + i];
      B[d * size + pairs + i] = sin[d * pairs + i];
    }
  const wanted = Float64Array.from({length: trained}, (_, d) => target(d) * Math.sqrt(size));
  const query = new Float32Array(size).fill(1, 0, pairs);
  return {query, key: Float32Array.from(fit(B, size, wanted, penalty))};
}

export default {
  name: 'further-scores',
  data: [],
  controls: [
    {name: 'method', type: 'choice', value: 'none',
     options: choices(['none', 'linear', 'ntk', 'yarn']),
     label: {en: 'Scaling of the frequencies', zh: '频率缩放'}},
    {name: 'multiple', type: 'range', min: 1, max: 8, step: 1, value: 4,
     label: {en: 'Length of the text', zh: '文本长度'},
     unit: {en: 'times the trained length', zh: '倍训练长度'}},
    {name: 'penalty', type: 'range', min: -4, max: 0, step: 1, value: -2,
     label: {en: 'Penalty on large elements: 10 to the power of', zh: '对大元素的惩罚：10 的幂'}},
  ],
  breaks: {method: 'linear'},

  compute(gnomon, {method, multiple, penalty}) {
    const {query, key} = trainedHead(gnomon, 10 ** penalty);
    const length = multiple * trained;
    const plan = scaledRotary(gnomon, method, {rotaryDim: size, trained, length})
                     .plan({keys: length, queries: 1});
    const keys = repeated(key, length);
    // The keys of the last query, nearest first.
    const scores = plan.scores(query, keys, {heads: 1}).reverse();
    const weights = scores.map(Math.exp), all = weights.reduce((sum, one) => sum + one, 0);
    const seen = scores.subarray(0, trained), unseen = scores.subarray(trained);
    return {
      scores, length, most: Math.max(...seen), least: Math.min(...seen),
      mostUnseen: Math.max(...unseen), leastUnseen: Math.min(...unseen),
      far: weights.subarray(trained).reduce((sum, one) => sum + one, 0) / all,
    };
  },

  claim: ({most, mostUnseen}) => mostUnseen > most,

  say({most, least, mostUnseen, leastUnseen, far}, {multiple}, language) {
    const zh = language === 'zh', range = (low, high) =>
        zh ? `${number(low, 2)} 到 ${number(high, 2)}` : `${number(low, 2)} to ${number(high, 2)}`;
    if (multiple === 1)
      return zh ? `文本与训练一样长：分数从 ${range(least, most)}。`
                : `The text is as long as training: scores from ${range(least, most)}.`;
    return zh ? `距离小于 ${trained} 时，分数从 ${range(least, most)}；更远时从 ` +
                `${range(leastUnseen, mostUnseen)}。${number(100 * far, 2)} % 的权重落在更远处。`
              : `Scores are ${range(least, most)} at distances below ${trained}, and ` +
                `${range(leastUnseen, mostUnseen)} farther away, where ` +
                `${number(100 * far, 2)} % of the weight is.`;
  },

  draw(view, {scores, length}, _, language) {
    const zh = language === 'zh', x = steps(length);
    view.lines('scores', {
      title: zh ? '一个头的分数与距离' : 'Scores of one head, by distance', height: 300,
      xTitle: zh ? '距离' : 'distance', yTitle: zh ? '分数' : 'score',
      series: [
        {name: zh ? '注意力的分数' : 'score of the attention', x, y: scores},
        {name: zh ? '训练的目标' : 'what training asked for', dashed: true,
         x: x.subarray(0, trained), y: x.subarray(0, trained).map(target)},
      ],
      marks: [{x: trained, label: zh ? '训练长度' : 'trained length'}],
    });
  },

  numbers(gnomon) {
    const at = method => this.compute(gnomon, {method, multiple: 4, penalty: -2});
    const none = at('none'), linear = at('linear'), yarn = at('yarn');
    return {
      least: number(none.least, 2), most: number(none.most, 2),
      mostUnseen: number(none.mostUnseen, 2), leastUnseen: number(none.leastUnseen, 2),
      far: number(100 * none.far, 2), linearMost: number(linear.mostUnseen, 2),
      linearFar: number(100 * linear.far, 2), yarnMost: number(yarn.mostUnseen, 2),
    };
  },
};
