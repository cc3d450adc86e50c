// Chapter 6: the position encoding of a config.json.
import {number} from '../web/text.js';
import {configs} from './shared/configs.js';
import {steps} from './shared/vectors.js';

const lengths = [4096, 8192, 16384, 32768, 65536, 131072], longest = 2 ** 20;

// The text in the area, if the reader has changed it; else that of the chosen model.
const textOf = ({model, config}) => configs.some(one => one.text === config)
    ? configs.find(one => one.value === model).text : config;

const sameFrequencies = (one, other) => JSON.stringify(one.groups.map(g => g.inv_freq)) ===
    JSON.stringify(other.groups.map(g => g.inv_freq));

// The first length whose frequencies differ from those of short texts; 0: none does.
function firstChange(model) {
  const short = model.describe(1);
  if (sameFrequencies(short, model.describe(longest))) return 0;
  let low = 1, high = longest;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (sameFrequencies(short, model.describe(middle))) low = middle;
    else high = middle;
  }
  return high;
}

// What the figure needs of a group of equal layers.
function groupOf(gnomon, group) {
  const {kind, layers = [], scaling = {type: 'none'}, base, rotary_dim: size} = group;
  const one = {kind, layers: layers.length, scaling: scaling.type, factor: scaling.factor ?? 1,
               trained: scaling.original_length ?? scaling.trained_length ?? 0,
               base: base ?? NaN, size: size ?? 0, scale: group.table_scale ?? 1};
  if (!group.inv_freq?.length || !(base > 1)) return one;
  const plain = gnomon.encoding({kind: 'rotary', rotary_dim: 2 * group.inv_freq.length,
                                 pairing: 'halves', base}).frequencies();
  const wavelengths = list => Float64Array.from(list, f => 2 * Math.PI / f);
  return {...one, plain: wavelengths(plain), waves: wavelengths(group.inv_freq),
          ratio: Float64Array.from(group.inv_freq, (f, i) => f / plain[i])};
}

export default {
  name: 'further-config',
  data: [],
  controls: [
    {name: 'model', type: 'choice', value: 'llama-3.1',
     options: configs.map(({value, title, text}) =>
         ({value, label: {en: title, zh: title}, sets: {config: text}})),
     label: {en: 'Model', zh: '模型'}},
    {name: 'config', type: 'area', value: configs[0].text,
     label: {en: 'config.json: change it, or paste your own', zh: 'config.json：可修改，或粘贴自己的'}},
    {name: 'length', type: 'choice', value: '131072',
     options: lengths.map(n => ({value: String(n), label: {en: String(n), zh: String(n)}})),
     label: {en: 'Length of the text, in tokens', zh: '文本长度（词元）'}},
  ],
  breaks: {model: 'llama-2', config: configs.find(one => one.value === 'llama-2').text},

  compute(gnomon, state) {
    const length = Number(state.length);
    try {
      const model = gnomon.model(textOf(state));
      const {model_type: type, groups, notes = []} = model.describe(length);
      return {type, notes, length, groups: groups.map(one => groupOf(gnomon, one)),
              change: firstChange(model)};
    } catch (error) {
      return {error: error.message, groups: [], notes: [], length, change: 0};
    }
  },

  // Some layers slow the last pair and leave the first one.
  claim: ({groups}) => groups.some(
      ({ratio}) => ratio && ratio[0] > 0.99 && ratio[ratio.length - 1] < 0.99),

  say({error, type, groups, notes, change}, _, language) {
    const zh = language === 'zh';
    if (error !== undefined)
      return zh ? `库拒绝这个配置：${error}` : `The library refuses this config: ${error}`;
    const rotary = groups.filter(one => one.ratio), kinds = groups.map(one => one.kind);
    const note = notes.length ? `${zh ? '注：' : ' Note: '}${notes[0]}` : '';
    if (!rotary.length)
      return (zh ? `${type} 没有旋转编码（${kinds.join('、')}）。`
                 : `${type} has no rotary encoding (${kinds.join(', ')}).`) + note;
    const parts = rotary.map(({layers, scaling, ratio}) => {
      const slowest = number(1 / ratio[ratio.length - 1]), fastest = number(1 / ratio[0]);
      if (scaling === 'none') return zh ? `${layers} 层不缩放` : `${layers} layers are not scaled`;
      return zh ? `${layers} 层用 ${scaling}，最快的一对除以 ${fastest}，最慢的除以 ${slowest}`
                : `${layers} layers use ${scaling}: the fastest pair is divided by ${fastest}, ` +
                  `the slowest by ${slowest}`;
    });
    const switches = change
        ? (zh ? `从 ${change} 个词元起，频率开始改变。`
              : ` From ${change} tokens on the frequencies change.`)
        : (zh ? '频率与文本长度无关。' : ' The frequencies do not depend on the length of the text.');
    return (zh ? `${type}：${parts.join('；')}。` : `${type}: ${parts.join('; ')}.`) + switches + note;
  },

  draw(view, {error, groups, length}, _, language) {
    const zh = language === 'zh';
    if (error !== undefined) {
      view.table('error', {title: zh ? '错误' : 'Error', rows: [[error]]});
      return;
    }
    view.table('groups', {
      title: zh ? '层与编码' : 'Layers and encodings',
      head: zh ? ['层数', '编码', '旋转的元素', '底数', '缩放', '倍数', 'cos、sin 的系数']
               : ['layers', 'encoding', 'rotated elements', 'base', 'scaling', 'factor',
                  'scale of cos and sin'],
      rows: groups.map(({layers, kind, size, base, scaling, factor, scale, ratio}) => ratio
          ? [layers, kind, size, String(base), scaling, factor, scale]
          : [layers, kind, '-', '-', '-', '-', '-']),
    });
    const rotary = groups.filter(one => one.waves).slice(0, 3);
    if (!rotary.length) return;
    const finite = values => values.map(v => Number.isFinite(v) ? v : NaN);
    const trained = rotary.find(one => one.trained)?.trained;
    view.lines('waves', {
      title: zh ? '各对的波长' : 'Wavelengths of the pairs', yLog: true, height: 300,
      xTitle: zh ? '元素对' : 'pair', yTitle: zh ? '词元' : 'tokens',
      series: rotary.flatMap(({plain, waves, layers, scaling}, i) => [
        {name: zh ? `${layers} 层` : `${layers} layers`, x: steps(waves.length),
         y: finite(waves), colour: 'abc'[i]},
        ...(scaling === 'none' ? [] : [
          {name: zh ? '缩放前' : 'before scaling', x: steps(plain.length), y: plain,
           colour: 'abc'[i], dashed: true}]),
      ]),
      marks: [
        {y: length, label: zh ? '文本长度' : 'length of the text'},
        ...(trained && trained !== length
            ? [{y: trained, label: zh ? '缩放前的训练长度' : 'trained before scaling'}] : []),
      ],
    });
  },

  numbers(gnomon) {
    const at = (model, length = '131072') => this.compute(
        gnomon, {model, length, config: configs.find(one => one.value === model).text});
    const llama = at('llama-3.1').groups[0];
    return {
      kept: String(llama.ratio.reduce((sum, one) => sum + (one > 0.99 ? 1 : 0), 0)),
      divided: String(llama.ratio.reduce((sum, r) => sum + (r * 8 < 1.01 ? 1 : 0), 0)),
      phi3: String(at('phi-3').change), internlm2: String(at('internlm2').change),
      phi3Scale: number(at('phi-3').groups[0].scale), qwen: number(at('qwen2.5').groups[0].scale),
    };
  },
};
