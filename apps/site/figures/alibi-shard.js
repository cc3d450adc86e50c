// Figure 8.6: ALiBi's slopes of one tensor-parallel shard, from the global and the local heads.

const keys = 48;

const figure = {
  name: 'alibi-shard',
  data: [],
  controls: [
    {name: 'count', type: 'choice', value: 'local',
     options: [
       {value: 'local', label: {en: 'its own heads', zh: '自己的头数'}},
       {value: 'global', label: {en: 'all heads of the model', zh: '模型的总头数'}},
     ],
     label: {en: 'The shard counts', zh: '分片按什么计算'}},
    {name: 'heads', type: 'choice', value: '16',
     options: ['8', '12', '16', '32'].map(value => ({value, label: {en: value, zh: value}})),
     label: {en: 'Heads of the model', zh: '模型的头数'}},
    {name: 'shards', type: 'choice', value: '4',
     options: ['2', '4'].map(value => ({value, label: {en: value, zh: value}})),
     label: {en: 'Devices', zh: '设备数'}},
    {name: 'shard', type: 'range', min: 1, max: 4, step: 1, value: 1,
     label: {en: 'Device', zh: '第几个设备'}},
  ],
  breaks: {count: 'global'},

  compute(gnomon, {count, heads, shards, shard}) {
    const local = Number(heads) / Number(shards);
    const device = Math.min(shard, Number(shards)), first = (device - 1) * local;
    const right = Array.from(gnomon.alibiSlopes(Number(heads)).slice(first, first + local));
    const used = count === 'global' ? right : Array.from(gnomon.alibiSlopes(local));
    const bias = slopes => slopes.flatMap(slope =>
      Array.from({length: keys}, (_, j) => -slope * (keys - 1 - j)));
    return {device, first, right, used, bias: [bias(right), bias(used)]};
  },

  claim({right, used}) {
    return right.some((slope, i) => slope !== used[i]);
  },

  say({device, first, right, used}, {heads}, language) {
    const differ = right.filter((slope, i) => slope !== used[i]).length;
    const last = right.length - 1;
    const reach = slope => Math.round(Math.LN2 / slope);
    const head = first + last + 1;
    if (language === 'zh') {
      return `设备 ${device} 负责 ${heads} 个头中的第 ${first + 1} 到 ${head} 个；` +
        `${right.length} 个斜率中有 ${differ} 个错误。内容相同时，第 ${head} 个头的权重应在约 ` +
        `${reach(right[last])} 个词元处减半，这里在约 ${reach(used[last])} 个词元处减半。`;
    }
    return `Device ${device} holds heads ${first + 1} to ${head} of ${heads}; ${differ} of its ` +
      `${right.length} slopes are wrong. For equal contents, the weight of head ${head} should ` +
      `halve after about ${reach(right[last])} tokens; here it halves after about ` +
      `${reach(used[last])}.`;
  },

  draw(view, {first, right, used, bias}, state, language) {
    const zh = language === 'zh';
    const head = i => `${zh ? '头' : 'head'} ${first + i + 1}`;
    view.table('slopes', {
      title: zh ? '每个头的斜率，以及权重减半的距离' : 'Slope of each head, and tokens to half the weight',
      head: zh ? ['头', '斜率应为', '实际斜率', '应减半于', '实际减半于']
        : ['head', 'slope', 'slope used', 'half after', 'half after, used'],
      rows: right.map((slope, i) => [
        String(first + i + 1), slope.toPrecision(3), used[i].toPrecision(3),
        String(Math.round(Math.LN2 / slope)), String(Math.round(Math.LN2 / used[i]))]),
    });
    const least = Math.min(...bias.flat());
    const matrix = values => ({
      values, rows: right.length, columns: keys, rowLabels: right.map((_, i) => head(i)),
      columnTitle: zh ? '键（查询在最右）' : 'key (the query is the rightmost)',
      scale: 'diverging', range: [least, -least], span: 'half'});
    view.heatmap('right', {title: zh ? '应有的偏置' : 'Bias of the whole model', ...matrix(bias[0])});
    view.heatmap('used', {title: zh ? '分片使用的偏置' : 'Bias of the shard', ...matrix(bias[1])});
  },

  numbers(gnomon) {
    const state = {count: 'local', heads: '16', shards: '4', shard: 1};
    const {right, used} = figure.compute(gnomon, state);
    const last = right.length - 1, reach = slope => String(Math.round(Math.LN2 / slope));
    return {right: reach(right[last]), used: reach(used[last]),
            lowest: right[0].toFixed(4), wrong: used[0].toFixed(2)};
  },
};

export default figure;
