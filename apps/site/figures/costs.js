// Figure 7.6: time of attention with an encoding beside plain attention, and trained parameters.
import {named} from './shared/lab.js';

const sets = {
  usual: ['alibi', 't5', 'clipped', 'kerple', 'sandwich', 'xpos', 'rotary-learned'],
  vectors: ['relative-logits', 'transformer-xl', 'conformer', 'layout', 'fire'],
  tokens: ['fox', 'grape-additive', 'wall', 'cope', 'selective', 'path', 'grape-path'],
};
const limit = 1.05;
const shape = {width: 128, heads: 2, length: 4096};

const parameters = (gnomon, name) => gnomon.encoding(name, shape).parameters
  .reduce((sum, one) => sum + one.rows * one.columns, 0);

export default {
  name: 'costs',
  data: ['costs'],
  controls: [
    {name: 'set', type: 'choice', value: 'usual',
     options: [
       {value: 'usual', label: {en: 'a rotation, or a number by distance', zh: '旋转，或按距离的数'}},
       {value: 'vectors', label: {en: 'vectors or a network by distance', zh: '按距离的向量或网络'}},
       {value: 'tokens', label: {en: 'computed from the tokens', zh: '由词元内容计算'}},
     ],
     label: {en: 'Encodings', zh: '编码'}},
    {name: 'pass', type: 'choice', value: 'forward',
     options: [{value: 'forward', label: {en: 'forward', zh: '前向'}},
               {value: 'backward', label: {en: 'backward', zh: '反向'}}],
     label: {en: 'Pass', zh: '传播'}},
  ],
  breaks: {set: 'tokens'},

  compute(gnomon, {set, pass}, data) {
    return {
      machine: data.costs.machine, tokens: data.costs.tokens,
      rows: sets[set].map(name => ({
        name, time: named(data.costs.encodings, name)[pass],
        memory: named(data.costs.encodings, name)[`${pass}_mb`],
        parameters: parameters(gnomon, name),
      })),
    };
  },

  claim({rows}) {
    return rows.every(row => row.time <= limit);
  },

  say({rows, tokens, machine}, state, language) {
    const most = rows.reduce((a, b) => a.time >= b.time ? a : b);
    const least = rows.reduce((a, b) => a.time <= b.time ? a : b);
    if (language === 'zh') {
      return `${tokens} 个词元、${machine}、单线程：最贵的是 ${most.name}，为不带编码的注意力时间的 ` +
        `${most.time.toFixed(2)} 倍；最省的是 ${least.name}，${least.time.toFixed(2)} 倍。`;
    }
    return `${tokens} tokens, ${machine}, one thread: ${most.name} takes ${most.time.toFixed(2)} ` +
      `times the time of plain attention, the most; ${least.name} takes ${least.time.toFixed(2)}.`;
  },

  draw(view, {rows}, state, language) {
    const zh = language === 'zh';
    view.bars('time', {
      title: zh ? '时间：不带编码的注意力为 1' : 'Time: plain attention is 1',
      range: [0, Math.max(1.2, ...rows.map(row => row.time))],
      bars: [...rows.map(row => ({name: row.name, value: row.time})),
             {name: zh ? '不带编码' : 'plain attention', value: 1}],
    });
    view.table('memory', {
      title: zh ? '一层的代价（2 个头，每头 64 维）' : 'Cost of a layer (2 heads of 64 elements)',
      head: zh ? ['编码', '训练参数', '额外内存（MB）'] : ['encoding', 'trained parameters', 'extra MB'],
      rows: rows.map(row => [row.name, String(row.parameters), row.memory.toFixed(1)]),
    });
  },

  numbers(gnomon, data) {
    const time = name => named(data.costs.encodings, name).forward.toFixed(2);
    return {
      t5: time('t5'), alibi: time('alibi'), path: time('path'), fox: time('fox'),
      parameters: String(parameters(gnomon, 't5')),
    };
  },
};
