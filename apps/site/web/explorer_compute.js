// The worker's side of the explorer: one view of one encoding, as plain data.

// Contents of a word: normal random numbers from its letters, so that equal words are equal.
function vectorOf(gnomon, word, size) {
  let seed = 7;
  for (const c of word) seed = (Math.imul(seed, 31) + c.codePointAt(0)) >>> 0;
  return gnomon.normal(size, seed);
}

// Repeats rows [T, C] in the order of `words`.
function contentsOf(gnomon, words, width) {
  const x = new Float32Array(words.length * width);
  words.forEach((word, t) => x.set(vectorOf(gnomon, word, width), t * width));
  return x;
}

function cosines(table, rows, width) {
  const norms = new Float64Array(rows), all = new Float32Array(rows * rows);
  for (let i = 0; i < rows; ++i) {
    let sum = 0;
    for (let c = 0; c < width; ++c) sum += table[i * width + c] ** 2;
    norms[i] = Math.sqrt(sum) || 1;
  }
  for (let i = 0; i < rows; ++i)
    for (let j = 0; j <= i; ++j) {
      let sum = 0;
      for (let c = 0; c < width; ++c) sum += table[i * width + c] * table[j * width + c];
      all[i * rows + j] = all[j * rows + i] = sum / (norms[i] * norms[j]);
    }
  return all;
}

// The mean of a matrix [T, T] on each diagonal below the main one.
function meanByDistance(scores, tokens) {
  const mean = new Float64Array(tokens);
  for (let d = 0; d < tokens; ++d) {
    let sum = 0;
    for (let i = d; i < tokens; ++i) sum += scores[i * tokens + i - d];
    mean[d] = sum / (tokens - d);
  }
  return mean;
}

const isEmbedding = info => info.places.includes('embeddings');

const views = {
  rows(gnomon, {info, encoding, plan, shape, tokens}) {
    if (isEmbedding(info))
      return {values: plan.table(tokens, shape.width), rows: tokens, columns: shape.width};
    const frequencies = encoding.frequencies(tokens), pairs = frequencies.length;
    const {cos, sin} = gnomon.cosSin([...Array(tokens).keys()], frequencies);
    const values = new Float32Array(tokens * 2 * pairs);
    for (let t = 0; t < tokens; ++t) {
      values.set(cos.subarray(t * pairs, (t + 1) * pairs), t * 2 * pairs);
      values.set(sin.subarray(t * pairs, (t + 1) * pairs), (2 * t + 1) * pairs);
    }
    return {values, rows: tokens, columns: 2 * pairs, frequencies: [...frequencies]};
  },
  similarity(gnomon, {plan, shape, tokens}) {
    return {values: cosines(plan.table(tokens, shape.width), tokens, shape.width), rows: tokens,
            columns: tokens};
  },
  bias(gnomon, {plan, shape, tokens}) {
    return {values: plan.bias(shape.heads, tokens, tokens), rows: tokens, columns: tokens,
            heads: shape.heads};
  },
  decay(gnomon, {info, encoding, plan, shape, tokens}) {
    const distances = [...Array(tokens).keys()];
    if (isEmbedding(info)) {
      const table = plan.table(tokens, shape.width), products = new Float32Array(tokens * tokens);
      for (let i = 0; i < tokens; ++i)
        for (let j = 0; j < tokens; ++j)
          for (let c = 0; c < shape.width; ++c)
            products[i * tokens + j] += table[i * shape.width + c] * table[j * shape.width + c];
      return {distances, series: [{head: -1, mean: [...meanByDistance(products, tokens)]}]};
    }
    const heads = [...Array(Math.min(shape.heads, 6)).keys()];
    const means = scores => heads.map(head => ({
      head, mean: [...meanByDistance(scores.subarray(head * tokens * tokens), tokens)]}));
    if (info.places.length === 1 && info.places[0] === 'scores' && !info.terms && !info.contents)
      return {distances, isBias: true, series: means(plan.bias(shape.heads, tokens, tokens))};
    const ones = new Float32Array(tokens * shape.width).fill(1);
    const terms = info.terms ? encoding.terms(ones, {tokens}) : undefined;
    const scores = plan.scores(ones, ones, {heads: shape.heads, terms});
    terms?.free();
    return {distances, series: means(scores)};
  },
  attention(gnomon, {info, encoding, shape, words, causal, parameters}) {
    const {width, heads} = shape, tokens = words.length;
    const plan = encoding.plan({keys: tokens, causal, parameters});
    const x = contentsOf(gnomon, words, width), table = plan.table(tokens, width);
    for (let i = 0; i < x.length; ++i) x[i] += table[i];
    const plain = contentsOf(gnomon, words, width), none = gnomon.plan({causal});
    const terms = info.terms ? encoding.terms(x, {tokens, parameters}) : undefined;
    const result = {words, heads, values: plan.weights(x, x, {heads, terms}),
                    without: none.weights(plain, plain, {heads, headDim: width / heads})};
    none.free();
    plan.free();
    terms?.free();
    return result;
  },
  check(gnomon, {name, shape, isUsual}) {
    const {verdicts} = gnomon.check(name, {width: shape.width, heads: shape.heads, trained: 64,
                                           length: 256});
    return {verdicts, isUsual};
  },
};

// Whether the rotation of an encoding is one set of frequencies, which are rows of cos and sin.
function hasFrequencies(gnomon, info) {
  const encoding = gnomon.encoding(info.name, {width: 64, heads: 4, length: 64});
  try {
    return encoding.frequencies().length > 0;
  } catch {
    return false;
  } finally {
    encoding.free();
  }
}

/** Views that an encoding has, the one to begin with first. */
export function viewsOf(gnomon, info) {
  if (info.name === 'none') return ['attention', 'check'];
  if (isEmbedding(info)) return ['rows', 'similarity', 'decay', 'attention', 'check'];
  if (info.contents) return ['attention', 'check'];
  if (info.places.includes('scores')) return ['bias', 'decay', 'attention', 'check'];
  if (info.places.includes('queries and keys') && hasFrequencies(gnomon, info))
    return ['decay', 'rows', 'attention', 'check'];
  return ['decay', 'attention', 'check'];
}

function encodingView(gnomon, request) {
  const {name, shape, spec, view, tokens, text = '', causal = true} = request;
  const info = gnomon.encodings().find(one => one.name === name);
  const usual = gnomon.encoding(name, {...shape, reads: causal ? 'causal' : 'bidirectional'});
  const encoding = spec ? gnomon.encoding({...usual.spec, ...spec}) : usual;
  const words = [...text.matchAll(/[\u3400-\u9fff]|[^\s\u3400-\u9fff]+/gu)].slice(0, 32).map(m => m[0]);
  if (view === 'attention' && words.length < 2) throw new Error('[text] must have at least 2 words');
  const needsPlan = !['attention', 'check'].includes(view);
  const plan = needsPlan ? encoding.plan({keys: tokens, causal}) : undefined;
  const data = views[view](gnomon, {name, info, encoding, plan, shape, tokens, words, causal,
                                    isUsual: !spec || !Object.keys(spec).length});
  const result = {view, data, spec: encoding.spec, parameters: encoding.parameters.map(
      ({name: parameter, rows, columns}) => ({name: parameter, rows, columns}))};
  plan?.free();
  if (encoding !== usual) encoding.free();
  usual.free();
  return result;
}

function modelView(gnomon, {config, length, pairing}) {
  const model = gnomon.model(config, pairing ? {pairing} : {});
  const description = {...model.describe(length), trained: model.describe().length};
  model.free();
  return description;
}

export function compute(gnomon, request) {
  if (request.list)
    return gnomon.encodings().map(info => ({...info, views: viewsOf(gnomon, info)}));
  return request.config === undefined ? encodingView(gnomon, request) : modelView(gnomon, request);
}
