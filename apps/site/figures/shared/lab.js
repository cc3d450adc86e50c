// Names of encodings and tasks, and rankings of scores, for the figures of chapter 7.

const titles = {
  none: ['no position', '无位置编码'],
  sinusoidal: ['sinusoidal', '正弦'],
  learned: ['learned table', '可学习表'],
  rotary: ['RoPE', 'RoPE'],
  xpos: ['xPos', 'xPos'],
  alibi: ['ALiBi', 'ALiBi'],
  sandwich: ['Sandwich', 'Sandwich'],
  t5: ['T5 bias', 'T5 偏置'],
  kerple: ['KERPLE', 'KERPLE'],
  fire: ['FIRE', 'FIRE'],
  shaw: ['Shaw', 'Shaw'],
  'transformer-xl': ['Transformer-XL', 'Transformer-XL'],
  deberta: ['DeBERTa', 'DeBERTa'],
  fox: ['FoX', 'FoX'],
  path: ['PaTH', 'PaTH'],
  wall: ['Wall', 'Wall'],
  selective: ['selective RoPE', '选择性 RoPE'],
  'sinusoidal-grid': ['sinusoids of a grid', '网格正弦'],
  'rotary-axial': ['axial (2-D) RoPE', '二维 RoPE'],
  swin: ['Swin bias', 'Swin 偏置'],
  laplacian: ['Laplacian eigenvectors', '拉普拉斯特征向量'],
  'random-walk': ['random walks', '随机游走'],
  degree: ['degrees', '节点度'],
  graphormer: ['Graphormer bias', 'Graphormer 偏置'],
  released: ['its own encoding', '自带编码'],
  linear: ['linear interpolation', '线性插值'],
  ntk: ['NTK', 'NTK'],
  'dynamic-ntk': ['dynamic NTK', '动态 NTK'],
  yarn: ['YaRN', 'YaRN'],
};

const suffixes = {
  resized: ['resized', '重采样'],
  memory: ['with memory', '带记忆'],
  window: ['one segment', '单段'],
  restart: ['restarted each turn', '每轮重新计数'],
  image: ['on patches only', '仅图块'],
  text: ['on words only', '仅单词'],
  tuned: ['fine-tuned', '微调后'],
};

const tasks = {
  text: ['text', '文本'],
  translation: ['translation', '翻译'],
  dialogue: ['dialogue', '对话'],
  image: ['images', '图像'],
  'image-text': ['image and caption', '图文匹配'],
  'graph-distances': ['graphs: distances', '图：最短路径'],
  'graph-classes': ['graphs: communities', '图：社区'],
  classify: ['order of words', '词序分类'],
  copy: ['copying', '复制'],
  addition: ['addition', '加法'],
  'flipflop-1': ['flip-flop, 1 layer', 'flip-flop（1 层）'],
  'flipflop-2': ['flip-flop, 2 layers', 'flip-flop（2 层）'],
};

const pick = ([en, zh], language) => language === 'zh' ? zh : en;

/** The title of an encoding, of `NAME@SUFFIX`, or of a way to use a checkpoint. */
export function title(name, language) {
  const [base, suffix] = name.split('@');
  const head = pick(titles[base], language);
  if (!suffix) return head;
  const tail = pick(suffixes[suffix], language);
  return language === 'zh' ? `${head}（${tail}）` : `${head}, ${tail}`;
}

/** The title of a task, one for each score. */
export const taskTitle = (name, language) => pick(tasks[name], language);

/** The unit of a task's score: chrF of translation has none. */
export const unitOf = task => task === 'translation' ? '' : '%';

const units = {
  words: '个单词', turns: '轮', 'patches a side': '个图块（每边）', patches: '个图块（每边）',
  nodes: '个节点', bytes: '字节', letters: '个字母', digits: '位数字', instructions: '条指令',
};

/** A range of lengths such as `25 to 36 words`, in a language. */
export function lengths(text, language) {
  if (language !== 'zh') return text;
  const [, from, , to, unit] = /^(\d+)( to (\d+))? (.*)$/.exec(text);
  return `${to ? `${from} 至 ${to}` : from} ${units[unit]}`;
}

/** Options of a choice control. */
export const options = names => names.map(name => (
  {value: name, label: {en: title(name, 'en'), zh: title(name, 'zh')}}));

/** Options of a choice of tasks. */
export const taskOptions = names => names.map(name => (
  {value: name, label: {en: taskTitle(name, 'en'), zh: taskTitle(name, 'zh')}}));

/** Titles in a row. */
export const list = (names, language) =>
  names.map(name => title(name, language)).join(language === 'zh' ? '、' : ', ');

/** The entry of a list with this name. */
export const named = (entries, name) => entries.find(entry => entry.name === name);

/** Entries from best to worst; `lower`: smaller values are better. */
export const ranked = (scores, lower) =>
  [...scores].sort((a, b) => (lower ? a.value - b.value : b.value - a.value));

/** The names whose value is at most `margin` worse than the best. */
export function nearBest(scores, lower, margin) {
  const order = ranked(scores, lower);
  return order.filter(one => Math.abs(one.value - order[0].value) <= margin + 1e-9)
    .map(one => one.name);
}
