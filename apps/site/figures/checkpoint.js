// Figure 8.1: scores of a checkpoint's rotation, and of a rotation with one number wrong.

const config = `{
  "model_type": "llama",
  "hidden_size": 2048,
  "num_attention_heads": 32,
  "num_key_value_heads": 8,
  "num_hidden_layers": 16,
  "max_position_embeddings": 131072,
  "rope_theta": 500000.0,
  "rope_scaling": {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192
  }
}`;

const mistakes = {
  none: {en: 'none', zh: '无'},
  base: {en: 'base 10000', zh: '底数用 10000'},
  pairing: {en: 'the other pairing', zh: '配对方式弄反'},
  scaling: {en: 'rope_scaling ignored', zh: '忽略 rope_scaling'},
  partial: {en: 'half of the elements', zh: '只旋转一半元素'},
};

// Distances 0, 1, 2, ... 8192, evenly spaced in the logarithm.
const distances = [...new Set([0, ...Array.from({length: 120}, (_, i) =>
  Math.round(8192 ** (i / 119)))])];

const geometric = (rotaryDim, base) =>
  Array.from({length: rotaryDim / 2}, (_, i) => base ** (-2 * i / rotaryDim));

/** What an engine with the mistake uses in place of the settings of the checkpoint. */
function mistaken(right, mistake) {
  const {rotaryDim, base, pairing} = right;
  switch (mistake) {
    case 'base': return {...right, frequencies: geometric(rotaryDim, 10000)};
    case 'pairing':
      return {...right, pairing: pairing === 'halves' ? 'adjacent' : 'halves'};
    case 'scaling': return {...right, frequencies: geometric(rotaryDim, base)};
    case 'partial': {
      const half = Math.max(2, 2 * Math.floor(rotaryDim / 4));
      return {...right, rotaryDim: half, frequencies: geometric(half, base)};
    }
    default: return right;
  }
}

/** Scores of one query and one key by distance: the query stands at 8192. */
function scores(gnomon, query, key, {rotaryDim, pairing, frequencies, headOffset}) {
  const options = {heads: 1, rotaryDim, pairing, frequencies, headOffset};
  const size = key.length, keys = new Float32Array(distances.length * size);
  distances.forEach((_, i) => keys.set(key, i * size));
  const q = gnomon.rotate(query, [8192], options);
  const k = gnomon.rotate(keys, distances.map(distance => 8192 - distance), options);
  return distances.map((_, i) => {
    let sum = 0;
    for (let d = 0; d < size; ++d) sum += q[d] * k[i * size + d];
    return sum / Math.sqrt(size);
  });
}

const figure = {
  name: 'checkpoint',
  data: [],
  controls: [
    {name: 'mistake', type: 'choice', value: 'base',
     options: Object.entries(mistakes).map(([value, label]) => ({value, label})),
     label: {en: 'Mistake of the engine', zh: '引擎的错误'}},
    {name: 'config', type: 'area', value: config, label: {en: 'config.json', zh: 'config.json'}},
  ],
  breaks: {mistake: 'none'},

  compute(gnomon, {mistake, config: text}) {
    const model = gnomon.model(text);
    const group = model.describe().groups[0];
    model.free();
    if (!group.inv_freq) return {rotary: false, kind: group.kind};
    const right = {rotaryDim: group.rotary_dim, pairing: group.pairing, base: group.base ?? 10000,
                   frequencies: group.inv_freq, headOffset: group.head_offset};
    const query = gnomon.normal(group.head_dim, 3), other = gnomon.normal(group.head_dim, 4);
    const key = query.map((value, d) => 0.6 * value + 0.8 * other[d]);
    const exact = scores(gnomon, query, key, right);
    const wrong = scores(gnomon, query, key, mistaken(right, mistake));
    const change = exact.map((score, i) => Math.abs(wrong[i] - score));
    const range = Math.max(...exact) - Math.min(...exact);
    const at = change.indexOf(Math.max(...change));
    return {rotary: true, distances, exact, wrong, change: change[at] / range,
            at: distances[at], head: group.head_dim, rotaryDim: right.rotaryDim,
            pairing: right.pairing, base: right.base, scaling: group.scaling?.type ?? 'none',
            fastest: group.inv_freq[0], slowest: group.inv_freq[group.inv_freq.length - 1]};
  },

  claim({rotary, change}) {
    return rotary && change > 0.01;
  },

  say(result, {mistake}, language) {
    const zh = language === 'zh';
    if (!result.rotary) {
      return zh ? `第一组层的位置编码是 ${result.kind}，没有旋转。`
        : `The first layers have the encoding ${result.kind}, which does not rotate.`;
    }
    const percent = (100 * result.change).toFixed(0);
    const name = mistakes[mistake][language];
    if (result.change === 0) {
      return zh ? '两条曲线相同。' : 'Both curves are the same.';
    }
    return zh
      ? `错误（${name}）使分数最多改变其变化范围的 ${percent} %（距离 ${result.at} 处），没有任何报错。`
      : `The mistake (${name}) changes a score by up to ${percent} % of the range, at distance ` +
        `${result.at}. Nothing reports an error.`;
  },

  draw(view, result, {mistake}, language) {
    const zh = language === 'zh';
    if (!result.rotary) return;
    const x = result.distances.slice(1);
    view.lines('scores', {
      title: zh ? '一个查询与一个相似的键的分数' : 'Score of a query and a similar key',
      xTitle: zh ? '距离' : 'distance', yTitle: zh ? '分数' : 'score', xLog: true,
      series: [
        {name: zh ? '检查点的设置' : 'settings of the checkpoint', x, y: result.exact.slice(1)},
        {name: mistakes[mistake][language], x, y: result.wrong.slice(1), dashed: true},
      ],
    });
    view.table('settings', {
      title: zh ? '从 config.json 得出' : 'Derived from config.json',
      head: zh ? ['设置', '值'] : ['setting', 'value'],
      rows: [
        [zh ? '旋转的元素' : 'rotated elements', `${result.rotaryDim} / ${result.head}`],
        [zh ? '配对（由模型类型决定）' : 'pairing (from the model type)', result.pairing],
        [zh ? '底数' : 'base', String(result.base)],
        [zh ? '缩放' : 'scaling', result.scaling],
        [zh ? '最快与最慢的频率' : 'fastest and slowest frequency',
         `${result.fastest.toPrecision(3)}, ${result.slowest.toExponential(2)}`],
      ],
    });
  },

  numbers(gnomon) {
    const percent = mistake =>
      (100 * figure.compute(gnomon, {mistake, config}).change).toFixed(0);
    const {slowest} = figure.compute(gnomon, {mistake: 'none', config});
    return {base: percent('base'), pairing: percent('pairing'), scaling: percent('scaling'),
            partial: percent('partial'), slowest: slowest.toExponential(2)};
  },
};

export default figure;
