// Figure 8.7: the bias of forget gates (FoX), from one gate for each token.

const wordsOf = text => text.trim().split(/\s+/).filter(word => word !== '').slice(0, 16);

const size = 8;  // elements of a head

/** Scores and weights [tokens, tokens] of FoX for equal contents whose products are 0. */
function attentionOf(gnomon, gates) {
  const tokens = gates.length, zeros = new Float32Array(tokens * size);
  const fox = gnomon.encoding('fox', {width: size, heads: 1, length: tokens});
  const plan = fox.plan({keys: tokens});
  const terms = gnomon.terms({log_gates: {values: Float32Array.from(gates), shape: [1, 1, tokens]}});
  const options = {heads: 1, terms};
  const result = {scores: [...plan.scores(zeros, zeros, options)],
                  weights: [...plan.weights(zeros, zeros, options)]};
  for (const one of [terms, plan, fox]) one.free();
  return result;
}

const figure = {
  name: 'forget-gates',
  data: [],
  controls: [
    {name: 'token', type: 'range', min: 1, max: 16, step: 1, value: 5,
     label: {en: 'Token that forgets', zh: '遗忘的词元'}},
    {name: 'strength', type: 'range', min: 0, max: 8, step: 0.5, value: 6,
     label: {en: 'Its gate: minus the logarithm', zh: '它的门（对数取负）'}},
    {name: 'others', type: 'range', min: 0, max: 1, step: 0.05, value: 0,
     label: {en: 'Gates of the others: minus the logarithm', zh: '其他词元的门（对数取负）'}},
    {name: 'words', type: 'text',
     value: {en: 'red is warm . next : the sea is cold', zh: '红色 是 暖色 。 换段 大海 很 冷'},
     label: {en: 'Words', zh: '词'}},
  ],
  breaks: {strength: 0},

  compute(gnomon, {token, strength, others, words: text}) {
    const found = wordsOf(text), words = found.length > 0 ? found : ['?'];
    const at = Math.min(token, words.length) - 1;
    const gates = words.map((_, t) => -(t === at ? strength : others));
    const {scores: bias, weights: all} = attentionOf(gnomon, gates), tokens = words.length;
    const weights = all.slice((tokens - 1) * tokens);
    const before = weights.slice(0, at).reduce((total, one) => total + one, 0);
    return {words, at, gates, bias, weights, before};
  },

  claim({before, at}) {
    return at > 0 && before < 0.01;
  },

  say({words, at, before, gates}, state, language) {
    const share = before < 0.0001 && before > 0 ? '< 0.01' : (100 * before).toFixed(2);
    const equal = gates.every(gate => gate === gates[0]);
    if (language === 'zh') {
      return `最后一个查询把 ${share} % 的权重给“${words[at]}”之前的词元（内容相同时）。` +
        (equal && gates[0] < 0 ? `所有门相等：这就是斜率为 ${-gates[0]} 的 ALiBi。` : '');
    }
    return `The last query gives ${share} % of its weight to the tokens before ` +
      `"${words[at]}", for equal contents.` +
      (equal && gates[0] < 0 ? ` All gates are equal: this is ALiBi with slope ${-gates[0]}.` : '');
  },

  draw(view, {words, at, gates, bias, weights}, state, language) {
    const zh = language === 'zh', tokens = words.length;
    view.words('words', {
      title: zh ? '词与其门的对数' : 'Words, and the logarithm of their gates',
      words: words.map((text, t) => ({
        text, note: gates[t] === 0 ? '0' : `−${-gates[t]}`, colour: t === at ? 'b' : 'a'})),
    });
    const most = Math.max(1, ...bias.filter(Number.isFinite).map(Math.abs));
    view.heatmap('bias', {
      title: zh ? '加到分数上的偏置' : 'Bias added to the scores', span: 'half',
      values: bias.map((one, n) => n % tokens > Math.floor(n / tokens) ? NaN : one),
      rows: tokens, columns: tokens, rowLabels: words, columnLabels: words,
      rowTitle: zh ? '查询' : 'query', columnTitle: zh ? '键' : 'key',
      scale: 'diverging', range: [-most, most],
      pick: (row, column) => ({token: column + 1}),
    });
    view.bars('weights', {
      title: zh ? '最后一个查询的权重（内容相同）' : 'Weights of the last query (equal contents)',
      span: 'half', range: [0, 1],
      bars: weights.map((value, t) => ({name: words[t], value})),
    });
  },

  numbers(gnomon) {
    const state = {token: 5, strength: 6, others: 0, words: 'red is warm . next : the sea is cold'};
    return {before: (100 * figure.compute(gnomon, state).before).toFixed(2)};
  },
};

export default figure;
