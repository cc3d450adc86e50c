// Chapter 5: scores by distance for several contents.
import {number} from '../web/text.js';
import {dot, lookingBack, largest, repeated, steps} from './shared/vectors.js';

const size = 64, samples = 32, distances = steps(128, 2), options = {pairing: 'halves'};

// Uniform numbers in [0, 1] from pairs of normal ones: the angle of the pair.
function uniform(gnomon, count, seed) {
  const normal = gnomon.normal(2 * count, seed);
  return Float32Array.from({length: count}, (_, i) =>
      Math.atan2(normal[2 * i], normal[2 * i + 1]) / (2 * Math.PI) + 0.5);
}

// Queries and keys [samples, size], and the score that counts as 1.
function contents(gnomon, kind, back, base) {
  const count = samples * size;
  if (kind === 'normal')
    return {queries: gnomon.normal(count, 1), keys: gnomon.normal(count, 2), unit: size};
  if (kind === 'uniform')
    return {queries: uniform(gnomon, count, 3), keys: uniform(gnomon, count, 4), unit: size / 4};
  const key = kind === 'ones' ? new Float32Array(size).fill(1) : gnomon.normal(size, 5);
  const query = kind === 'ones' ? key : lookingBack(gnomon, key, back, {...options, base});
  return {queries: query, keys: key, unit: dot(key, key)};
}

export default {
  name: 'turn-decay',
  data: [],
  controls: [
    {name: 'kind', type: 'choice', value: 'normal', options: [
      {value: 'normal', label: {en: 'random, mean 0', zh: '随机，均值为 0'}},
      {value: 'uniform', label: {en: 'random, uniform in [0, 1]', zh: '随机，[0, 1] 上均匀分布'}},
      {value: 'ones', label: {en: 'all ones', zh: '全为 1'}},
      {value: 'chosen', label: {en: 'chosen to look back', zh: '选定为看向前面'}},
    ], label: {en: 'Elements of queries and keys', zh: '查询和键的元素'}},
    {name: 'back', type: 'range', min: 0, max: 200, step: 2, value: 60,
     label: {en: 'Chosen to look back by', zh: '选定的距离'}, unit: {en: 'tokens', zh: '个词元'}},
    {name: 'base', type: 'choice', value: '10000', options: [
      {value: '10000', label: {en: '10000', zh: '10000'}},
      {value: '500000', label: {en: '500000', zh: '500000'}},
      {value: '100', label: {en: '100', zh: '100'}},
    ], label: {en: 'Base', zh: '底数'}},
  ],
  breaks: {kind: 'ones'},

  compute(gnomon, {kind, back, base}) {
    const ones = gnomon.rotate(new Float32Array(distances.length * size).fill(1), distances,
                               {heads: 1, rotaryDim: size, base: Number(base), ...options});
    const all = new Float32Array(size).fill(1 / size);
    const ofOnes = distances.map((_, t) => dot(ones, all, size, t * size));
    const {queries, keys, unit} = contents(gnomon, kind, back, Number(base));
    const heads = queries.length / size;
    const turned = gnomon.rotate(repeated(queries, distances.length), distances,
                                 {heads, rotaryDim: size, base: Number(base), ...options});
    const mean = new Float64Array(distances.length), deviation = new Float64Array(distances.length);
    for (let t = 0; t < distances.length; ++t) {
      let sum = 0, squares = 0;
      for (let h = 0; h < heads; ++h) {
        const score = dot(turned, keys, size, (t * heads + h) * size, h * size) / unit;
        sum += score;
        squares += score * score;
      }
      mean[t] = sum / heads;
      deviation[t] = Math.sqrt(Math.max(squares / heads - mean[t] ** 2, 0));
    }
    let rises = 0, isZero = heads > 1;
    for (let t = 0; t < mean.length; ++t) {
      if (t && mean[t] > mean[t - 1]) ++rises;
      if (Math.abs(mean[t]) > 4 * deviation[t] / Math.sqrt(heads)) isZero = false;
    }
    return {mean, ofOnes, deviation, heads, rises, isZero, best: distances[largest(mean)]};
  },

  // Within 4 standard errors of 0 at each distance.
  claim: ({isZero}) => isZero,

  say({mean, deviation, heads, rises, isZero, best}, {kind}, language) {
    const zh = language === 'zh', at = d => number(mean[d / 2], 2);
    const most = number(mean[largest(mean)], 2), [near, end] = [0, 127].map(i => deviation[i]);
    const far = number(mean.slice(64).reduce((sum, one) => sum + one, 0) / 64, 2);
    if (isZero)
      return zh ? `${heads} 对随机向量的平均分数在每个距离上与 0 之差都不超过 4 个标准误差，` +
                  `标准差在距离 0 为 ${number(near, 2)}，在距离 254 为 ${number(end, 2)}。`
                : `The mean score of ${heads} random pairs is within 4 standard errors of 0 at ` +
                  `each distance. The deviation is ${number(near, 2)} at distance 0 and ` +
                  `${number(end, 2)} at distance 254.`;
    if (kind === 'chosen')
      return zh ? `分数在距离 ${best} 处最大（${most}）；距离 0 处为 ${at(0)}。`
                : `The score is largest at distance ${best} (${most}); at distance 0 it is ` +
                  `${at(0)}.`;
    return zh ? `分数在距离 0 为 ${at(0)}，在 100 为 ${at(100)}，从 128 到 254 平均为 ${far}。` +
                `127 步中有 ${rises} 步反而上升（波纹）。`
              : `The score is ${at(0)} at distance 0, ${at(100)} at 100, and ${far} on average ` +
                `from 128 to 254. It rises in ${rises} of 127 steps (ripples).`;
  },

  draw(view, {mean, ofOnes, deviation, heads}, {kind, back}, language) {
    const zh = language === 'zh', band = heads > 1;
    view.lines('scores', {
      title: zh ? '分数与距离（阴影：一个标准差）'
                : 'Score by distance (band: one standard deviation)',
      xTitle: zh ? '距离' : 'distance', yTitle: zh ? '分数' : 'score', height: 300,
      yRange: [-0.6, 1.25],
      series: [{
        x: distances, y: mean, name: zh ? '平均分数' : 'mean score',
        ...(band ? {low: mean.map((m, i) => m - deviation[i]),
                    high: mean.map((m, i) => m + deviation[i])} : {}),
      }, ...(kind === 'ones' ? [] : [
        {x: distances, y: ofOnes, name: zh ? '全为 1（对照）' : 'all ones, for comparison',
         colour: 'muted', dashed: true}])],
      marks: [{y: 0, label: ''}, ...(kind === 'chosen' ? [{x: back, label: String(back)}] : [])],
    });
  },

  numbers(gnomon) {
    const at = (kind, back = 60) => this.compute(gnomon, {kind, back, base: '10000'});
    const ones = at('ones'), uniformScores = at('uniform'), normal = at('normal');
    return {
      ones100: number(ones.mean[50], 2), ones254: number(ones.mean[127], 2),
      rises: String(ones.rises), uniform100: number(uniformScores.mean[50], 2),
      normal0: number(normal.mean[0], 1), normal100: number(normal.mean[50], 1),
      deviation: number(normal.deviation[50], 2), best: String(at('chosen').best),
    };
  },
};
