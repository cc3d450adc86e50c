// Rotates queries and keys as a config.json says, and computes attention.
//
//   node rotate.mjs [config.json]

const TOKENS = 16;

/** Llama 3.1 8B. */
export const LLAMA = {
  model_type: 'llama', hidden_size: 4096, num_hidden_layers: 32, num_attention_heads: 32,
  num_key_value_heads: 8, max_position_embeddings: 131072, rope_theta: 500000,
  rope_scaling: {rope_type: 'llama3', factor: 8, low_freq_factor: 1, high_freq_factor: 4,
                 original_max_position_embeddings: 8192},
};

/** @param {Float32Array} values */
const numbers = values => Array.from(values.subarray(0, 6), x => x.toFixed(4)).join(' ');

/**
 * Returns the lines that the program prints.
 * @param {import('@gnomon/wasm').Gnomon} gnomon
 * @param {object} config
 */
export function rotated(gnomon, config) {
  const model = gnomon.model(config);
  const group = /** @type {any} */ (model.describe()).groups[0];
  const heads = group.heads, keyHeads = group.key_heads, headDim = group.head_dim;
  const q = gnomon.normal(TOKENS * heads * headDim, 1);
  const k = gnomon.normal(TOKENS * keyHeads * headDim, 2);
  const v = gnomon.normal(TOKENS * keyHeads * headDim, 3);
  const positions = Array.from({length: TOKENS}, (_, t) => t);

  // With the frequencies of the config.
  const rotation = {rotaryDim: group.rotary_dim, headOffset: group.head_offset,
                    pairing: group.pairing, frequencies: group.inv_freq};
  const qRotated = gnomon.rotate(q, positions, {heads, ...rotation});
  const kRotated = gnomon.rotate(k, positions, {heads: keyHeads, ...rotation});
  const out = gnomon.plan({keys: TOKENS}).attention(qRotated, kRotated, v, {heads, keyHeads});

  // With the plan of the first layer, which has no norms.
  const prepared = model.plan(0, {keys: TOKENS}).prepare(q, k, {heads, keyHeads});
  const same = qRotated.every((x, i) => x === prepared.q[i]) &&
    kRotated.every((x, i) => x === prepared.k[i]);
  if (!same) throw new Error('the two rotations differ');
  return [
    `${heads} heads, ${keyHeads} key heads, head dimension ${headDim}`,
    `rotated query: ${numbers(qRotated.subarray(-headDim))}`,
    `rotated key: ${numbers(kRotated.subarray(-headDim))}`,
    `attention: ${numbers(out.subarray(-headDim))}`,
    'the plan of layer 0 rotates equally',
  ];
}

// A page imports the function; Node runs the program.
if (typeof process !== 'undefined') {
  const [{load}, {readFileSync}] = await Promise.all([import('@gnomon/wasm'), import('node:fs')]);
  const path = process.argv[2];
  const config = path === undefined ? LLAMA : JSON.parse(readFileSync(path, 'utf8'));
  console.log(rotated(await load(), config).join('\n'));
}
