// Chapter 5: the same angles, added or multiplied.
import {number} from '../web/text.js';
import {repeated, steps} from './shared/vectors.js';

const tokens = 32, size = 32;

export default {
  name: 'turn-add',
  data: [],
  controls: [
    {name: 'way', type: 'choice', value: 'rotated', options: [
      {value: 'rotated', label: {en: 'rotated (RoPE)', zh: '旋转（RoPE）'}},
      {value: 'added', label: {en: 'added (sinusoidal)', zh: '相加（正弦）'}},
    ], label: {en: 'Positions are', zh: '位置以何种方式进入'}},
    {name: 'contents', type: 'range', min: 0, max: 2, step: 0.25, value: 1,
     label: {en: 'Size of the contents', zh: '内容向量的大小'}},
    {name: 'seed', type: 'range', min: 1, max: 9, step: 1, value: 1,
     label: {en: 'Other contents', zh: '换一组内容'}},
  ],
  breaks: {way: 'added'},

  compute(gnomon, {way, contents, seed}) {
    // Every token has the same query and the same key before position enters.
    const both = gnomon.normal(2 * size, seed).map(v => contents * v);
    const q = repeated(both.subarray(0, size), tokens), k = repeated(both.subarray(size), tokens);
    let scores;
    if (way === 'rotated') {
      scores = gnomon.encoding({kind: 'rotary', rotary_dim: size, pairing: 'halves'})
                   .plan({keys: tokens, causal: false}).scores(q, k, {heads: 1});
    } else {
      const table = gnomon.sinusoidal(steps(tokens), size, {layout: 'half-split'});
      const plus = x => x.map((v, i) => v + table[i]);
      scores = gnomon.encoding({kind: 'none'}).plan({keys: tokens, causal: false})
                   .scores(plus(q), plus(k), {heads: 1});
    }
    const diagonal = distance => Array.from({length: tokens - distance}, (_, s) =>
        scores[(s + distance) * tokens + s]);
    let spread = 0;
    for (let distance = 0; distance < tokens; ++distance) {
      const one = diagonal(distance);
      spread = Math.max(spread, Math.max(...one) - Math.min(...one));
    }
    return {scores, spread, range: Math.max(...scores) - Math.min(...scores), near: diagonal(4)};
  },

  claim: ({spread, range}) => range > 0 && spread < 1e-4 * range,

  say({scores, spread, range}, {way, contents}, language) {
    const zh = language === 'zh';
    const least = number(Math.min(...scores), 2), most = number(Math.max(...scores), 2);
    if (range === 0)
      return zh ? '没有内容，就没有分数：旋转只会改变内容的方向。'
                : 'Without contents all scores are 0: a rotation only turns contents.';
    const share = number(100 * spread / range, 2);
    if (contents === 0)
      return zh ? `没有内容，分数也不为 0：位置与位置相乘（从 ${least} 到 ${most}），此时只取决于距离。`
                : `Without contents positions still give scores (from ${least} to ${most}), by ` +
                  'the distance alone.';
    return zh ? `距离相同的分数相差至多为全部分数范围的 ${share} %。` +
                (way === 'added' ? '差别来自内容与绝对位置相乘的项。' : '')
              : `Scores of equal distance differ by up to ${share} % of the range of all scores.` +
                (way === 'added' ? ' The difference comes from the products of contents and ' +
                                   'absolute positions.' : '');
  },

  draw(view, {scores, near}, _, language) {
    const zh = language === 'zh';
    view.heatmap('scores', {
      values: scores, rows: tokens, columns: tokens, scale: 'diverging', span: 'half',
      title: zh ? '相同内容在各位置的分数' : 'Scores of equal contents',
      rowTitle: zh ? '查询的位置' : 'position of the query',
      columnTitle: zh ? '键的位置' : 'position of the key',
    });
    view.lines('diagonal', {
      span: 'half', height: 260,
      title: zh ? '距离为 4 的各个分数' : 'The scores at distance 4',
      xTitle: zh ? '键的位置' : 'position of the key', yTitle: zh ? '分数' : 'score',
      series: [{x: steps(near.length), y: near, points: true}],
      yRange: [Math.min(...scores) - 0.1, Math.max(...scores) + 0.1],
    });
  },

  numbers(gnomon) {
    const added = this.compute(gnomon, {way: 'added', contents: 1, seed: 1});
    // A causal head without preferences: its weight on the first token gives the place.
    const length = 100, zeros = new Float32Array(length * size), first = new Float32Array(length);
    first[0] = 1;
    const place = causal => gnomon.encoding({kind: 'rotary', rotary_dim: size, pairing: 'halves'})
        .plan({keys: length, causal}).attention(zeros, zeros, first, {heads: 1});
    const causal = place(true), all = place(false);
    return {
      spread: number(100 * added.spread / added.range, 2),
      tenth: number(causal[9], 2), hundredth: number(causal[99], 2),
      both10: number(all[9], 2), both100: number(all[99], 2),
    };
  },
};
