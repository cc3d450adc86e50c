// What a causal mask alone tells: the weight of the first token is 1/n at place n.
import {planOf} from './shared/layer.js';
import {format, percent} from './shared/format.js';

const width = 16, tolerance = 1e-4;

// Weights [T, T] of one head. All queries are equal; `spread` is the deviation of the scores.
function weightsOf(gnomon, {tokens, causal, spread}) {
  const plan = planOf(gnomon, 'none', {width, heads: 1, tokens, causal});
  const query = gnomon.normal(width, 31), noise = gnomon.normal(tokens * width, 32);
  const size = Math.hypot(...query) / Math.sqrt(width);
  const q = new Float32Array(tokens * width), k = new Float32Array(tokens * width);
  for (let t = 0; t < tokens; ++t)
    for (let c = 0; c < width; ++c) {
      q[t * width + c] = query[c];
      k[t * width + c] = query[c] + spread / size * noise[t * width + c];
    }
  const weights = plan.weights(q, k, {heads: 1});
  plan.free();
  return weights;
}

export default {
  name: 'first-share',
  data: [],
  controls: [
    {name: 'causal', type: 'toggle', value: true, label: {en: 'Causal mask', zh: '因果掩码'}},
    {name: 'tokens', type: 'range', min: 4, max: 64, step: 1, value: 24,
     label: {en: 'Tokens', zh: '词元数'}},
    {name: 'spread', type: 'range', min: 0, max: 2, step: 0.1, value: 0,
     label: {en: 'Deviation of the scores', zh: '分数的标准差'}},
  ],
  breaks: {causal: false},

  compute(gnomon, {tokens, causal, spread}) {
    const weights = weightsOf(gnomon, {tokens, causal, spread});
    const shares = Array.from({length: tokens}, (_, t) => weights[t * tokens]);
    // Relative to 1/n, where n = t + 1 keys are visible under the mask.
    const error = Math.max(...shares.map((one, t) => Math.abs(one * (t + 1) - 1)));
    if (causal)
      for (let t = 0; t < tokens; ++t) weights.fill(NaN, t * tokens + t + 1, (t + 1) * tokens);
    return {weights, shares, error};
  },

  claim: ({error}) => error < tolerance,

  say({shares, error}, {tokens, causal, spread}, language) {
    const en = language === 'en', last = format(shares[tokens - 1]);
    if (error < tolerance)
      return en
        ? `At place n the first token has the weight 1/n: ${format(shares[1])} at place 2, ` +
          `${last} at place ${tokens}. A layer that reads this weight knows its place.`
        : `在第 n 个位置，第一个词元的权重是 1/n：第 2 个位置为 ${format(shares[1])}，` +
          `第 ${tokens} 个位置为 ${last}。读出这个权重的层就知道自己的位置。`;
    if (!causal && spread === 0)
      return en
        ? `Without the mask each query sees all ${tokens} keys. The first token has the weight ` +
          `${last} at every place, which tells nothing.`
        : `没有掩码时，每个查询都看到全部 ${tokens} 个键。第一个词元在每个位置的权重都是 ${last}，` +
          '不含位置信息。';
    const text = percent(error);
    return en
      ? `The weight of the first token differs from 1/n by up to ${text} of it. ` +
        (causal ? 'Scores that depend on the contents blur the count.' : 'There is no mask.')
      : `第一个词元的权重与 1/n 相差最多 ${text}。` +
        (causal ? '依赖内容的分数使计数变得模糊。' : '这里没有掩码。');
  },

  draw(view, {weights, shares}, {tokens}, language) {
    const en = language === 'en', x = shares.map((_, t) => t + 1);
    view.lines('shares', {
      title: en ? 'Weight of the first token' : '第一个词元的权重',
      xTitle: en ? 'place n' : '位置 n', yTitle: en ? 'weight' : '权重', yLog: true, span: 'half',
      series: [
        {name: en ? 'first token' : '第一个词元', x, y: shares, points: tokens <= 32},
        {name: '1/n', x, y: x.map(n => 1 / n), dashed: true},
      ],
    });
    view.heatmap('weights', {
      values: weights, rows: tokens, columns: tokens, scale: 'sequential', range: [0, 1],
      firstRow: 1, firstColumn: 1, span: 'half',
      title: en ? 'Weights of one head' : '一个注意力头的权重',
      rowTitle: en ? 'query' : '查询', columnTitle: en ? 'key' : '键',
    });
  },

  numbers(gnomon) {
    const tokens = 128;
    const weights = weightsOf(gnomon, {tokens, causal: true, spread: 0});
    const share = n => weights[(n - 1) * tokens];
    return {two: format(share(2)), eight: format(share(8)),
            gapNear: format(share(2) - share(3), 2), gapFar: format(share(127) - share(128), 2)};
  },
};
