// Figure 8.5: a prompt alone and left-padded, with positions from the mask or from the index.

const width = 32;

const size = 0.6;  // of the contents, so that a word does not see only itself

/** The same vector for the same word: its letters are the seed. */
function contents(gnomon, words) {
  const x = new Float32Array(words.length * width);
  words.forEach((word, t) => {
    let seed = 7;
    for (const letter of word) seed = (seed * 31 + letter.codePointAt(0)) % 65521;
    x.set(gnomon.normal(width, seed).map(value => size * value), t * width);
  });
  return x;
}

/** Weights [T, T] of causal attention of words that stand at some positions. */
function weights(gnomon, x, positions, encoding) {
  const tokens = positions.length;
  let q;
  if (encoding === 'rotary') {
    q = gnomon.rotate(x, positions, {heads: 1, rotaryDim: width, pairing: 'halves'});
  } else {
    const table = gnomon.sinusoidal(positions, width);
    q = x.map((value, i) => value + table[i]);
  }
  const none = gnomon.encoding('none', {width, heads: 1, length: tokens});
  const plan = none.plan({keys: tokens});
  const result = plan.weights(q, q, {heads: 1});
  plan.free();
  none.free();
  return result;
}

/** At most 12 words. */
const wordsOf = text => text.trim().split(/\s+/).filter(word => word !== '').slice(0, 12);

const figure = {
  name: 'left-padding',
  data: [],
  controls: [
    {name: 'positions', type: 'choice', value: 'mask',
     options: [
       {value: 'mask', label: {en: 'counted by the mask', zh: '按掩码计数'}},
       {value: 'index', label: {en: 'index of the column', zh: '列的下标'}},
     ],
     label: {en: 'Positions', zh: '位置'}},
    {name: 'padding', type: 'range', min: 0, max: 8, step: 1, value: 3,
     label: {en: 'Padding tokens', zh: '填充词元'}},
    {name: 'encoding', type: 'choice', value: 'sinusoidal',
     options: [
       {value: 'sinusoidal', label: {en: 'sinusoidal', zh: '正弦'}},
       {value: 'rotary', label: {en: 'rotary', zh: 'RoPE'}},
     ],
     label: {en: 'Encoding', zh: '编码'}},
    {name: 'words', type: 'text',
     value: {en: 'the dog chases the cat', zh: '狗 追 着 猫 跑'},
     label: {en: 'Prompt', zh: '提示'}},
  ],
  breaks: {positions: 'index'},

  compute(gnomon, {positions, padding, encoding, words: text}) {
    const found = wordsOf(text), words = found.length > 0 ? found : ['?'];
    const x = contents(gnomon, words);
    const alone = words.map((_, t) => t);
    const batch = alone.map(t => positions === 'mask' ? t : t + padding);
    const first = weights(gnomon, x, alone, encoding);
    // The padding keys are hidden: the rows of the words are those of the words alone.
    const second = weights(gnomon, x, batch, encoding);
    const change = Math.max(...first.map((weight, i) => Math.abs(weight - second[i])));
    return {words, batch, first, second, change};
  },

  claim({change}) {
    return change < 1e-4;
  },

  say({change, batch, words}, {padding, encoding}, language) {
    const same = change < 1e-4, zh = language === 'zh';
    if (zh) {
      return `第一个词“${words[0]}”位于位置 ${batch[0]}；填充 ${padding} 个词元后，` +
        (same ? '注意力权重与单独处理时相同。' : `注意力权重最多改变 ${change.toPrecision(2)}。`) +
        (same && batch[0] !== 0 && encoding === 'rotary'
          ? 'RoPE 的分数只取决于距离，整体平移不改变它。' : '');
    }
    return `The first word, "${words[0]}", has position ${batch[0]}. With ${padding} padding ` +
      `tokens, ${same ? 'the weights are those of the prompt alone'
        : `weights change by up to ${change.toPrecision(2)}`}.` +
      (same && batch[0] !== 0 && encoding === 'rotary'
        ? ' Scores of RoPE depend on the distance alone: a shift of all positions changes nothing.'
        : '');
  },

  draw(view, {words, batch, first, second}, {padding}, language) {
    const zh = language === 'zh', tokens = words.length;
    view.words('batch', {
      title: zh ? '批中的一行：词与位置' : 'A row of the batch: words and positions',
      words: [
        ...Array.from({length: padding}, () => (
          {text: zh ? '填充' : 'pad', note: '–', colour: 'muted'})),
        ...words.map((text, t) => ({text, note: String(batch[t]), colour: 'a'})),
      ],
    });
    const matrix = values => ({
      rows: tokens, columns: tokens, rowLabels: words, columnLabels: words, scale: 'sequential',
      range: [0, 1], span: 'half',
      values: values.map((value, i) => i % tokens > Math.floor(i / tokens) ? NaN : value),
    });
    view.heatmap('alone', {title: zh ? '单独处理时的权重' : 'Weights of the prompt alone',
                           ...matrix(first)});
    view.heatmap('padded', {title: zh ? '填充后的权重' : 'Weights in the padded batch',
                            ...matrix(second)});
  },

  numbers(gnomon) {
    const change = encoding => figure.compute(gnomon, {
      positions: 'index', padding: 3, encoding, words: 'the dog chases the cat'}).change;
    return {change: change('sinusoidal').toFixed(2)};
  },
};

export default figure;
