// Text of the reader in two languages.
import {number} from './text.js';

export const labels = {
  text: {en: 'Your text', zh: '你的文本'},
  hint: {
    en: 'The models have read English novels only. The text is extended with sentences of ' +
        'Northanger Abbey, which they have not read, up to the length.',
    zh: '这些模型只读过英文小说。文本不足所选长度时，用它们没有读过的《诺桑觉寺》（Northanger Abbey）' +
        '的句子补足。',
  },
  model: {en: 'Model, trained with', zh: '模型，训练时使用'},
  encoding: {en: 'Encoding at run time', zh: '运行时的编码'},
  other: {en: 'Another encoding ...', zh: '其他编码……'},
  name: {en: 'Name, or spec as JSON', zh: '名称，或 JSON 规格'},
  length: {en: 'Length of the text', zh: '文本长度'},
  position: {en: 'Position of the cursor', zh: '光标位置'},
  layer: {en: 'Layer', zh: '层'},
  head: {en: 'Head', zh: '头'},
  bytes: {en: 'bytes', zh: '字节'},
  strip: {en: 'The text, coloured by its loss', zh: '按损失着色的文本'},
  trained: {en: 'training length', zh: '训练长度'},
  loss: {en: 'Loss by position', zh: '各位置的损失'},
  lossAxis: {en: 'bits per byte', zh: '比特 / 字节'},
  positionAxis: {en: 'bytes before the predicted byte', zh: '被预测字节之前的字节数'},
  thisText: {en: 'this text', zh: '这段文本'},
  testText: {en: 'mean of {n} test texts', zh: '{n} 段测试文本的平均值'},
  ownMean: {en: 'the same, encoding of the training', zh: '同上，训练时的编码'},
  charts: {en: 'Charts of the text', zh: '这段文本的图'},
  next: {en: 'Next byte', zh: '下一个字节'},
  whole: {en: 'Attention, whole text', zh: '注意力，整段文本'},
  near: {en: 'Attention near the cursor', zh: '光标附近的注意力'},
  row: {en: 'Attention of the byte at the cursor', zh: '光标处字节的注意力'},
  query: {en: 'query', zh: '查询'},
  key: {en: 'key', zh: '键'},
  weight: {en: 'weight', zh: '权重'},
  distance: {en: 'distance of the key, bytes', zh: '键的距离（字节）'},
  space: {en: 'space', zh: '空格'},
  line: {en: 'line break', zh: '换行'},
  real: {en: 'in the text', zh: '文本中的字节'},
  loading: {en: 'Loading the models ...', zh: '正在加载模型……'},
  short: {en: 'The text needs at least 2 bytes.', zh: '文本至少需要 2 个字节。'},
  error: {en: 'Error', zh: '错误'},
};

/** Names of encodings: of models and of the choices at run time. */
export const names = {
  rotary: {en: 'RoPE', zh: 'RoPE'},
  alibi: {en: 'ALiBi', zh: 'ALiBi'},
  sinusoidal: {en: 'sinusoidal', zh: '正弦编码'},
  none: {en: 'no position', zh: '无位置编码'},
  linear: {en: 'RoPE, linear interpolation to the length', zh: 'RoPE，线性内插到该长度'},
  ntk: {en: 'RoPE, NTK-aware to the length', zh: 'RoPE，NTK-aware 扩展到该长度'},
  yarn: {en: 'RoPE, YaRN to the length', zh: 'RoPE，YaRN 扩展到该长度'},
  window: {en: 'window of the training length', zh: '训练长度的窗口'},
};

export const ownName = {en: ' (as trained)', zh: '（与训练相同）'};

/** A byte as text: a printable character in quotes, or its name. */
export function byteName(byte, language) {
  if (byte === 32) return labels.space[language];
  if (byte === 10) return labels.line[language];
  if (byte > 32 && byte < 127) return String.fromCharCode(byte);
  return `0x${byte.toString(16).toUpperCase().padStart(2, '0')}`;
}

const mean = values => values.reduce((sum, one) => sum + one, 0) / values.length;

/**
 * The mean loss of the bytes that have up to the training length of bytes before them, but more
 * than half of it, and of those that have more; NaN without such bytes. bits[i] is the loss of
 * the byte with i + 1 bytes before it.
 */
export function lossesOf({bits, trained}) {
  const part = (begin, end) => mean([...bits.subarray(begin, end)]);
  return {inside: part(trained / 2, trained), beyond: part(trained, bits.length)};
}

/** What the picture shows, in sentences made from the numbers. */
export function say(result, {model, encoding, position}, language) {
  const {inside, beyond} = lossesOf(result), {trained, tokens, next} = result;
  const run = names[encoding]?.[language] ?? encoding;
  const best = byteName(next[0].byte, language), share = number(100 * next[0].probability, 2);
  const farthest = result.row.reduce((at, one, i, all) => one > all[at] ? i : at, 0);
  const distance = position - farthest;
  if (language === 'zh') {
    const far = Number.isFinite(beyond)
        ? `，第 ${trained} 字节之后为 ${number(beyond, 3)}` : '；文本没有超出训练长度';
    const near = Number.isFinite(inside)
        ? `训练长度的后一半损失为 ${number(inside, 3)} 比特 / 字节${far}。` : '';
    return `模型以${names[model].zh}训练，训练长度 ${trained} 字节；运行时使用${run}，文本 ${tokens} ` +
        `字节。${near}光标之后最可能的字节是“${best}”（${share} %）。所选的头把最大的权重 ` +
        `${number(result.row[farthest], 2)} 给了距离为 ${distance} 的键。`;
  }
  const far = Number.isFinite(beyond)
      ? ` and ${number(beyond, 3)} beyond byte ${trained}` : '; the text does not exceed it';
  const near = Number.isFinite(inside)
      ? `The loss is ${number(inside, 3)} bits per byte in the second half of the training ` +
        `length${far}. ` : '';
  return `A model trained with ${names[model].en} on ${trained} bytes runs with ${run} on ` +
      `${tokens} bytes. ${near}After the cursor, the most likely byte is “${best}” (${share} %). ` +
      `The chosen head has its largest weight, ${number(result.row[farthest], 2)}, on the key at ` +
      `distance ${distance}.`;
}
