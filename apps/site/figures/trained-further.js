// Losses of the trained models beyond their training length, as measured by the lab
// (docs/book/data/reader.json).

const names = {
  rotary: {en: 'RoPE', zh: 'RoPE'},
  alibi: {en: 'ALiBi', zh: 'ALiBi'},
  sinusoidal: {en: 'sinusoidal', zh: '正弦编码'},
  none: {en: 'no position', zh: '无位置编码'},
  linear: {en: 'linear interpolation', zh: '线性内插'},
  ntk: {en: 'NTK-aware', zh: 'NTK-aware'},
  yarn: {en: 'YaRN', zh: 'YaRN'},
  window: {en: 'window', zh: '窗口'},
};
const extensions = ['yarn', 'ntk', 'linear', 'window'];
const colours = {rotary: 'a', alibi: 'c', sinusoidal: 'd', none: 'e'};

const runOf = (reader, model, encoding) => reader.models.find(one => one.name === model).runs.find(
    one => encoding === undefined ? one.own : one.encoding === encoding);

// The part of the rise of the loss of RoPE at a length that an extension takes away.
function repaired(reader, extension, index) {
  const plain = runOf(reader, 'rotary').bits, better = runOf(reader, 'rotary', extension).bits;
  const rise = plain[index] - plain[0];
  return {rise, share: (plain[index] - better[index]) / rise};
}

export default {
  name: 'trained-further',
  data: ['reader'],
  controls: [
    {name: 'extension', type: 'choice', value: 'yarn',
     label: {en: 'RoPE extended by', zh: 'RoPE 的扩展方法'},
     options: extensions.map(value => ({value, label: names[value]}))},
    {name: 'length', type: 'choice', value: 512, label: {en: 'Length', zh: '长度'},
     options: [256, 512, 1024].map(value => (
         {value, label: {en: `${value} bytes`, zh: `${value} 字节`}}))},
  ],
  breaks: {extension: 'linear'},

  compute(gnomon, {extension, length}, {reader}) {
    const index = reader.lengths.indexOf(length);
    return {
      lengths: reader.lengths, trained: reader.trained, index,
      models: reader.models.map(({name}) => ({name, bits: runOf(reader, name).bits})),
      extended: runOf(reader, 'rotary', extension).bits,
      ...repaired(reader, extension, index),
    };
  },

  claim({rise, share}) {
    return rise > 0.5 && share > 0.5;
  },

  say({index, lengths, trained, models, extended, share}, {extension}, language) {
    const plain = models.find(one => one.name === 'rotary').bits, text = x => x.toFixed(2);
    const name = names[extension][language], part = Math.round(100 * share);
    if (language === 'zh')
      return `以 ${trained} 字节训练的 RoPE 模型，损失从 ${trained} 字节时的 ${text(plain[0])} 变为 ` +
          `${lengths[index]} 字节时的 ${text(plain[index])} 比特 / 字节；使用${name}时为 ` +
          `${text(extended[index])}，` +
          (part >= 0 ? `消除了增量的 ${part} %。` : `比不扩展更差。`);
    return `The loss of the model trained with RoPE on ${trained} bytes changes from ` +
        `${text(plain[0])} at ${trained} bytes to ${text(plain[index])} bits per byte at ` +
        `${lengths[index]} bytes; with ${name} it is ${text(extended[index])}, ` +
        (part >= 0 ? `which removes ${part} % of the increase.`
                   : 'which is worse than without an extension.');
  },

  draw(view, {lengths, trained, models, extended, index}, {extension}, language) {
    const series = models.map(({name, bits}) => (
        {name: names[name][language], x: lengths, y: bits, points: true, colour: colours[name]}));
    series.splice(1, 0, {name: `RoPE + ${names[extension][language]}`, x: lengths, y: extended,
                         points: true, dashed: true, colour: 'b'});
    view.lines('loss', {
      series, xLog: true,
      title: {en: 'Loss by length', zh: '各长度的损失'}[language],
      xTitle: {en: 'bytes that the model reads', zh: '模型读入的字节数'}[language],
      yTitle: {en: 'bits per byte', zh: '比特 / 字节'}[language],
      marks: [{x: trained, label: {en: 'training length', zh: '训练长度'}[language]}],
    });
    view.bars('at', {
      title: {en: `At ${lengths[index]} bytes`, zh: `${lengths[index]} 字节时`}[language],
      bars: series.map(({name, y, colour}) => ({name, value: y[index], colour})),
    });
  },

  numbers(gnomon, {reader}) {
    const all = {trained: String(reader.trained), parameters: String(reader.models[0].parameters)};
    for (const {name, runs} of reader.models)
      for (const {encoding, own, bits} of runs)
        bits.forEach((one, i) => {
          all[`${name}${own ? '' : `.${encoding}`}.${reader.lengths[i]}`] = one.toFixed(2);
        });
    for (const [i, length] of reader.lengths.entries())
      if (i)
        for (const extension of extensions)
          all[`repaired.${extension}.${length}`] =
              String(Math.round(100 * repaired(reader, extension, i).share));
    return all;
  },
};
