// The bucket of each distance in T5.
import {say} from '../rows.js';

const length = 300;

export default {
  name: 'bias-buckets',
  data: [],
  controls: [
    {name: 'buckets', type: 'choice', value: 32,
     options: [8, 16, 32, 64].map(value => ({value, label: {en: `${value}`, zh: `${value}`}})),
     label: {en: 'Buckets', zh: '桶数'}},
    {name: 'longest', type: 'choice', value: 128,
     options: [64, 128, 256].map(value => ({value, label: {en: `${value}`, zh: `${value}`}})),
     label: {en: 'max_distance', zh: 'max_distance'}},
    {name: 'encoder', type: 'toggle', value: false,
     label: {en: 'Encoder (both directions)', zh: '编码器（双向）'}},
  ],
  breaks: {longest: 256},

  compute(gnomon, {buckets, longest, encoder}) {
    const encoding = gnomon.encoding({
      kind: 't5', heads: 1, direction: encoder ? 'bidirectional' : 'causal', buckets,
      max_distance: longest,
    });
    // The parameter of bucket b is b, so that the bias is the number of the bucket.
    const plan = encoding.plan({keys: length, queries: 1,
                                parameters: [Float32Array.from({length: buckets}, (_, b) => b)]});
    const bucket = [...plan.bias(1, 1, length)].reverse();
    plan.free();
    encoding.free();
    const shared = bucket.indexOf(bucket.at(-1));
    const alone = bucket.findIndex((one, d) => one === bucket[d + 1]);
    return {bucket, shared, alone, used: new Set(bucket).size};
  },

  claim: ({shared}) => shared === 113,

  say({shared, alone, used}, _, language) {
    return say(language,
               `Distances 0 to ${alone - 1} have a bucket each. All distances from ${shared} on ` +
               `share one. Keys before the query use ${used} buckets.`,
               `距离 0 到 ${alone - 1} 各占一个桶。从距离 ${shared} 起，所有距离共用一个桶。查询之前的键` +
               `共使用 ${used} 个桶。`);
  },

  draw(view, {bucket, shared}, _, language) {
    view.lines('buckets', {
      series: [{x: [...bucket.keys()], y: bucket}], yRange: [0, 1.15 * Math.max(...bucket)],
      title: say(language, 'Bucket of a key before the query', '查询之前的键所在的桶'),
      xTitle: say(language, 'distance (tokens)', '距离（词元）'),
      yTitle: say(language, 'bucket', '桶'),
      marks: [{x: shared, label: say(language, `from ${shared} on: one bucket`,
                                     `从 ${shared} 起：同一个桶`)}],
    });
  },

  numbers(gnomon) {
    const decoder = this.compute(gnomon, {buckets: 32, longest: 128, encoder: false});
    const encoder = this.compute(gnomon, {buckets: 32, longest: 128, encoder: true});
    return {shared: String(decoder.shared), alone: String(decoder.alone - 1),
            encoder: String(encoder.shared)};
  },
};
