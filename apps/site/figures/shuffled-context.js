// Trained models: their loss if the context, except its end, is in random order.
import {format} from './shared/format.js';

const names = {
  none: {en: 'no position', zh: '无位置编码'},
  sinusoidal: {en: 'sinusoidal', zh: '正弦'},
  rotary: {en: 'RoPE', zh: 'RoPE'},
  alibi: {en: 'ALiBi', zh: 'ALiBi'},
};
const threshold = 0.5;

export default {
  name: 'shuffled-context',
  data: ['order'],
  controls: [
    {name: 'kept', type: 'choice', value: 1,
     label: {en: 'Last bytes that keep their place', zh: '保持原位的末尾字节数'},
     options: [0, 1, 2, 4, 8, 16, 32, 64, 96].map(
         value => ({value, label: {en: String(value), zh: String(value)}}))},
    {name: 'view', type: 'choice', value: 'rise', label: {en: 'Show', zh: '显示'},
     options: [
       {value: 'rise', label: {en: 'the rise of the loss', zh: '损失的增加'}},
       {value: 'loss', label: {en: 'the loss', zh: '损失'}},
     ]},
  ],
  breaks: {kept: 96},

  compute(gnomon, {kept: at}, {order: {kept, context, models}}) {
    const rows = Object.entries(models).map(([name, {layers, ordered, shuffled, margin}]) => ({
      name, layers, ordered: ordered[0], shuffled, margin,
      rises: shuffled.map(bits => bits - ordered[0]),
    }));
    return {kept, context, rows, at, step: kept.indexOf(at)};
  },

  // The rise exceeds the threshold with certainty for each model.
  claim: ({rows, step}) =>
    rows.every(({rises, margin}) => rises[step] - margin[step] > threshold),

  say({rows, at, context, step}, state, language) {
    const en = language === 'en';
    const rises = rows.map(({name, rises}) =>
      `${names[name][language]} ${format(rises[step], 2)}`).join(en ? ', ' : '，');
    const sure = rows.filter(({rises, margin}) => rises[step] > margin[step]).length;
    return en
      ? `Of ${context} bytes of context, all${at ? ` but the last ${at}` : ''} are in random ` +
        'order. The loss ' +
        `rises in bits per byte: ${rises}. The rise exceeds its 95 % margin in ${sure} of ` +
        `${rows.length} models.`
      : `上下文共 ${context} 个字节，${at ? `除最后 ${at} 个外` : ''}全部随机打乱。` +
        '损失增加（比特/字节）：' +
        `${rises}。${rows.length} 个模型中有 ${sure} 个的增加超过 95 % 误差范围。`;
  },

  draw(view, {rows, kept, step, at, context}, {view: what}, language) {
    const en = language === 'en', isRise = what === 'rise';
    const label = ({name, layers}) =>
      `${names[name][language]}${en ? `, ${layers} layers` : `，${layers} 层`}`;
    view.bars('bars', {
      title: (isRise ? (en ? 'Rise of the loss' : '损失的增加') : (en ? 'Loss' : '损失')) +
             (en ? `; last bytes in place: ${at}` : `；保持原位的末尾字节数：${at}`),
      unit: en ? ' bits' : ' 比特', range: [0, isRise ? 5 : 8],
      bars: rows.map(row => {
        const value = isRise ? row.rises[step] : row.shuffled[step];
        return {name: label(row), value, low: value - row.margin[step],
                high: value + row.margin[step]};
      }),
    });
    view.lines('lines', {
      title: en ? 'By the number of bytes that keep their place' : '随保持原位的字节数变化',
      xTitle: en ? `1 + last bytes in place, of ${context}`
                 : `1 + 保持原位的末尾字节数（共 ${context}）`,
      yTitle: en ? 'bits per byte' : '比特/字节', xLog: true,
      series: rows.map(row => ({name: label(row), x: kept.map(one => one + 1), points: true,
                                y: isRise ? row.rises : row.shuffled})),
      marks: [{x: at + 1, label: String(at)}],
    });
  },

  numbers(gnomon, {order}) {
    const rise = (name, kept) =>
      format(order.models[name].shuffled[order.kept.indexOf(kept)] - order.models[name].ordered[0],
             2);
    return {none: rise('none', 1), rotary: rise('rotary', 1), alibi: rise('alibi', 1),
            rotaryFar: rise('rotary', 16), context: String(order.context)};
  },
};
