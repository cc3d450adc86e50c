// Figure 8.3: cached keys after the frequencies of dynamic NTK changed.

const trained = 256, dim = 64;
const spec = {kind: 'rotary-scaled', rotary_dim: dim, pairing: 'halves', base: 10000,
              head_offset: 0, length: trained,
              scaling: {type: 'dynamic', factor: 2, trained_length: trained}};
const positions = Array.from({length: trained}, (_, i) => i);

function scores(q, keys) {
  return positions.map(j => {
    let sum = 0;
    for (let d = 0; d < dim; ++d) sum += q[d] * keys[j * dim + d];
    return sum / Math.sqrt(dim);
  });
}

const figure = {
  name: 'schedule-change',
  data: [],
  controls: [
    {name: 'length', type: 'range', min: trained, max: 1024, step: 16, value: 512,
     label: {en: 'Length now', zh: '当前长度'}, unit: {en: 'tokens', zh: '词元'}},
    {name: 'cache', type: 'choice', value: 'kept',
     options: [
       {value: 'kept', label: {en: 'left as they were', zh: '保持原样'}},
       {value: 'moved', label: {en: 'rotated to the new frequencies', zh: '转到新频率'}},
     ],
     label: {en: 'Cached keys', zh: '缓存的键'}},
  ],
  breaks: {cache: 'moved'},

  compute(gnomon, {length, cache}) {
    const encoding = gnomon.encoding(spec);
    const before = encoding.frequencies(trained), now = encoding.frequencies(length);
    encoding.free();
    const head = gnomon.normal(dim, 5), contents = new Float32Array(trained * dim);
    for (const j of positions) contents.set(head, j * dim);
    const turn = (x, at, frequencies, inverse = false) => gnomon.rotate(
      x, at, {heads: 1, rotaryDim: dim, pairing: 'halves', frequencies, inverse});
    const q = turn(head, [length - 1], now);
    const cached = turn(contents, positions, before);
    const used = cache === 'kept' ? cached
      : turn(turn(cached, positions, before, true), positions, now);
    const right = scores(q, turn(contents, positions, now)), got = scores(q, used);
    const range = Math.max(...right) - Math.min(...right);
    const change = Math.max(...got.map((score, j) => Math.abs(score - right[j]))) / range;
    return {right, got, change, distance: positions.map(j => length - 1 - j),
            ratio: before[dim / 2 - 1] / now[dim / 2 - 1]};
  },

  claim({change}) {
    return change > 0.05;
  },

  say({change, ratio}, {length, cache}, language) {
    const percent = 100 * change < 0.1 ? '< 0.1' : (100 * change).toPrecision(2);
    if (language === 'zh') {
      return `长度 ${length}：最慢的频率变为训练时的 1/${ratio.toFixed(2)}；` +
        `缓存的键${cache === 'kept' ? '仍按旧频率旋转' : '已转到新频率'}，` +
        `分数的误差最多为其变化范围的 ${percent} %。`;
    }
    return `Length ${length}: the slowest frequency is 1/${ratio.toFixed(2)} of the trained one. ` +
      `The cached keys are ${cache === 'kept' ? 'still rotated by the old frequencies'
        : 'rotated to the new frequencies'}; scores are off by up to ${percent} % of their range.`;
  },

  draw(view, {right, got, distance}, {cache}, language) {
    const zh = language === 'zh';
    view.lines('scores', {
      title: zh ? '新查询对 256 个缓存键的分数（内容相同）'
        : 'Scores of the new query with 256 cached keys (equal contents)',
      xTitle: zh ? '距离' : 'distance', yTitle: zh ? '分数' : 'score',
      series: [
        {name: zh ? '全部用新频率' : 'one schedule for all', x: distance, y: right},
        {name: cache === 'kept' ? (zh ? '缓存保持原样' : 'cache as it was')
          : (zh ? '缓存已转动' : 'cache rotated'), x: distance, y: got, dashed: true},
      ],
    });
  },

  numbers(gnomon) {
    const at = length => figure.compute(gnomon, {length, cache: 'kept'});
    return {change: (100 * at(512).change).toFixed(0), ratio: at(512).ratio.toFixed(2)};
  },
};

export default figure;
