// A small attention layer over words: vectors, projections, plans. Figures of chapter 1 use it.
// Letters: T tokens, C width, H heads.

/** The tokens of a text: at its spaces, or each Chinese character if the text has no spaces. */
export function wordsOf(text) {
  const plain = text.replace(/[.,;:!?。，、；：！？“”"]/gu, ' ').trim();
  if (plain === '') return [];
  return /\s/u.test(plain)
      ? plain.split(/\s+/u)
      : plain.match(/\p{Script=Han}|[^\p{Script=Han}]+/gu);
}

// FNV-1a over the code points: the seed of a word's vector.
function hash(word) {
  let value = 0x811c9dc5;
  for (const letter of word.toLowerCase())
    value = Math.imul(value ^ letter.codePointAt(0), 0x01000193) >>> 0;
  return value;
}

/** Normal vectors [T, C]; equal words have equal vectors, whatever else the text holds. */
export function vectors(gnomon, words, width) {
  const x = new Float32Array(words.length * width);
  words.forEach((word, t) => x.set(gnomon.normal(width, hash(word)), t * width));
  return x;
}

/** x [T, C] times a matrix [C, C]. */
export function project(x, matrix, width) {
  const tokens = x.length / width, out = new Float32Array(x.length);
  for (let t = 0; t < tokens; ++t)
    for (let i = 0; i < width; ++i) {
      const factor = x[t * width + i];
      for (let c = 0; c < width; ++c) out[t * width + c] += factor * matrix[i * width + c];
    }
  return out;
}

/** Projections of queries, keys and values, [C, C] each: normal numbers of deviation 1/sqrt(C). */
export function projections(gnomon, width, seed) {
  return [0, 1, 2].map(
      one => gnomon.normal(width * width, seed + one).map(value => value / Math.sqrt(width)));
}

/** The plan of an encoding for T tokens; the caller frees it. */
export function planOf(gnomon, name, {width, heads, tokens, causal}) {
  const reads = causal ? 'causal' : 'bidirectional';
  const encoding = gnomon.encoding(name, {width, heads, length: Math.max(tokens, 2), reads});
  try {
    return encoding.plan({keys: tokens, causal});
  } finally {
    encoding.free();
  }
}

/** Rows [T, C] in another order: row t of the result is row order[t] of x. */
export function reorder(x, order, width) {
  const out = new Float32Array(x.length);
  order.forEach((from, t) => out.set(x.subarray(from * width, (from + 1) * width), t * width));
  return out;
}

/** x plus the rows that the plan adds to the embeddings (zeros without a table). */
export function withTable(plan, x, width) {
  const table = plan.table(x.length / width, width);
  return x.map((value, i) => value + table[i]);
}

/** Queries, keys and values of x, [T, H, D]. */
export const queriesKeysValues = (x, matrices, width) =>
  matrices.map(matrix => project(x, matrix, width));

/** The largest magnitude; 0 if there are no values. */
export const largest = values => values.reduce((most, one) => Math.max(most, Math.abs(one)), 0);

/** The largest |a - b|, divided by the largest |b|. */
export const change = (a, b) => Math.max(0, ...changeOfRows(a, b, b.length));

/** The largest |a - b| of each row [C], divided by the largest |b| of all rows. */
export function changeOfRows(a, b, width) {
  const size = largest(b), rows = [];
  for (let begin = 0; begin < b.length; begin += width) {
    const difference = a.slice(begin, begin + width).map((value, i) => value - b[begin + i]);
    rows.push(size > 0 ? largest(difference) / size : 0);
  }
  return rows;
}

/** The mean of weights [H, T, S] over heads. */
export function meanOfHeads(weights, heads) {
  const size = weights.length / heads, mean = new Float32Array(size);
  for (let i = 0; i < weights.length; ++i) mean[i % size] += weights[i] / heads;
  return mean;
}

/** Normal numbers decide a permutation of 0 .. count - 1 that moves at least one entry. */
export function permutation(gnomon, count, seed) {
  const keys = gnomon.normal(count, seed);
  const order = [...keys.keys()].sort((a, b) => keys[a] - keys[b] || a - b);
  return order.every((one, i) => one === i) ? order.reverse() : order;
}
