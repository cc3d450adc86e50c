// A decode loop like Llama's, whose position comes from a config.json alone: the base, scaling
// and pairing of the rotary embedding, sliding windows, and the scale of the softmax. Weights are
// random, so the model can be narrower than the config says; heads and layers are those of the
// config.
//
//   node llama.mjs [config.json]

const WIDTH = 32, VOCABULARY = 50, LONGEST = 64;

/** Llama 3.1 8B. */
export const LLAMA = {
  model_type: 'llama', hidden_size: 4096, num_hidden_layers: 32, num_attention_heads: 32,
  num_key_value_heads: 8, max_position_embeddings: 131072, rope_theta: 500000,
  rope_scaling: {rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4,
                 original_max_position_embeddings: 8192},
};

/**
 * RMSNorm without weights.
 * @param {Float32Array} x
 */
function norm(x) {
  const out = new Float32Array(x.length);
  for (let row = 0; row < x.length; row += WIDTH) {
    let sum = 0;
    for (let c = 0; c < WIDTH; ++c) sum += x[row + c] ** 2;
    const scale = 1 / Math.sqrt(sum / WIDTH + 1e-6);
    for (let c = 0; c < WIDTH; ++c) out[row + c] = x[row + c] * scale;
  }
  return out;
}

/** @param {Float32Array} row */
const largest = row => row.reduce((best, x, i) => x > row[best] ? i : best, 0);

class Llama {
  /**
   * @param {import('@gnomon/wasm').Gnomon} gnomon
   * @param {object} config
   */
  constructor(gnomon, config) {
    this.gnomon = gnomon;
    this.model = gnomon.model(config);
    /** A projection with random weights of variance 1 / inputs, kept in the library.
     * @param {number} inputs @param {number} outputs @param {number} seed */
    const linear = (inputs, outputs, seed) => {
      const scale = Math.fround(1 / Math.fround(Math.sqrt(inputs)));
      const weights = gnomon.constant(gnomon.normal(inputs * outputs, seed).map(x => x * scale));
      return (/** @type {Float32Array} */ x) => gnomon.linear(x, weights, null, {inputs, outputs});
    };
    /** @type {any[]} */
    this.groups = /** @type {any} */ (this.model.describe()).groups;
    this.layers = this.groups.flatMap(({heads, key_heads: keyHeads, head_dim: headDim, layers}, group) =>
      layers.map((/** @type {number} */ index) => ({
        index, heads, group,
        query: linear(WIDTH, heads * headDim, 10 * index + 10),
        key: linear(WIDTH, keyHeads * headDim, 10 * index + 11),
        value: linear(WIDTH, keyHeads * headDim, 10 * index + 12),
        output: linear(heads * headDim, WIDTH, 10 * index + 13),
        cache: gnomon.cache({capacity: LONGEST, keyHeads, headDim}),
      }))).sort((a, b) => a.index - b.index);
    this.embedding = gnomon.normal(VOCABULARY * WIDTH, 1);
    this.head = linear(WIDTH, VOCABULARY, 2);
  }

  /**
   * Processes the next tokens. Returns their logits, [T, VOCABULARY].
   * @param {number[]} ids
   */
  forward(ids) {
    const keys = this.layers[0].cache.length + ids.length;
    const plans = this.groups.map(
      ({layers}) => this.model.plan(layers[0], {keys, queries: ids.length}));
    const x = new Float32Array(ids.length * WIDTH);
    ids.forEach((id, t) => x.set(this.embedding.subarray(id * WIDTH, (id + 1) * WIDTH), t * WIDTH));
    for (const {query, key, value, output, cache, heads, group} of this.layers) {
      const normed = norm(x);
      const out = plans[group].decode(query(normed), key(normed), value(normed), cache, {heads});
      output(out).forEach((/** @type {number} */ y, /** @type {number} */ i) => { x[i] += y; });
    }
    for (const plan of plans) plan.free();
    return this.head(norm(x));
  }
}

/**
 * Returns the lines that the program prints.
 * @param {import('@gnomon/wasm').Gnomon} gnomon
 * @param {object} config
 */
export function decoded(gnomon, config) {
  const llama = new Llama(gnomon, config);
  const tokens = [3, 14, 15, 9, 26];
  let last = llama.forward(tokens);
  const logits = [...last];
  for (let step = 0; step < 8; ++step) {
    tokens.push(largest(last.subarray(-VOCABULARY)));
    last = llama.forward(tokens.slice(-1));
    logits.push(...last);
  }
  for (const {cache} of llama.layers) cache.clear();
  const onePass = llama.forward(tokens);
  const off = onePass.reduce((most, x, i) => Math.max(most, Math.abs(x - logits[i])), 0);
  if (logits.length !== onePass.length || !(off <= 1e-3))
    throw new Error(`decoding differs from one pass by ${off}`);
  return [
    `${llama.layers.length} layers in ${llama.groups.length} groups`,
    `tokens: ${tokens.slice(5).join(' ')}`,
    `last logits: ${Array.from(last.subarray(0, 6), x => x.toFixed(3)).join(' ')}`,
    'decoding with the cache equals one pass',
  ];
}

// A page imports the function; Node runs the program.
if (typeof process !== 'undefined') {
  const [{load}, {readFileSync}] = await Promise.all([import('@gnomon/wasm'), import('node:fs')]);
  const path = process.argv[2];
  const config = path === undefined ? LLAMA : JSON.parse(readFileSync(path, 'utf8'));
  console.log(decoded(await load(), config).join('\n'));
}
