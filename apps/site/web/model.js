// A model of the lab in JavaScript: embeddings, blocks with pre-norm, logits (docs/lab/models.md).
// Position enters through plans of the library, so a model runs with any encoding.
//
// Letters: V bytes (256), C width, H heads, D = C / H, T tokens.
import {readSafetensors} from './safetensors.js';

const epsilon = 1e-5;  // of the layer norms
const largest = {width: 1024, layers: 32, trained: 1 << 16};

function fail(what) {
  throw new Error(`model: ${what}`);
}

function wholeNumber(metadata, key, most) {
  const text = metadata.get(key) ?? '', value = Number(text);
  if (!/^[0-9]+$/.test(text) || value < 1 || value > most)
    fail(`${key} must be an integer from 1 to ${most}`);
  return value;
}

function specOf(metadata) {
  try {
    return JSON.parse(metadata.get('encoding'));
  } catch {
    fail('encoding must be JSON');
  }
}

/** The weights of a file, checked: a Map of Float32Array, and the sizes. */
export function readModel(buffer) {
  const {tensors, metadata} = readSafetensors(buffer);
  const [vocabulary, width] = tensors.get('embedding.weight')?.shape ?? [];
  if (vocabulary !== 256 || !(width >= 1 && width <= largest.width))
    fail(`embedding.weight must be [256, 1 to ${largest.width}]`);
  const layers = wholeNumber(metadata, 'layers', largest.layers);
  const heads = wholeNumber(metadata, 'heads', width);
  if (width % heads) fail('heads must divide the width');
  const weights = new Map();
  const take = (name, ...shape) => {
    const tensor = tensors.get(name);
    if (!tensor || String(tensor.shape) !== String(shape)) fail(`${name} must be [${shape}]`);
    weights.set(name, tensor.values);
  };
  take('embedding.weight', 256, width);
  for (let l = 0; l < layers; ++l) {
    for (const norm of ['attention_norm', 'feed_norm'])
      for (const part of ['weight', 'bias']) take(`block${l}.${norm}.${part}`, width);
    take(`block${l}.qkv.weight`, 3 * width, width);
    take(`block${l}.attention_out.weight`, width, width);
    take(`block${l}.feed_in.weight`, 4 * width, width);
    take(`block${l}.feed_out.weight`, width, 4 * width);
  }
  for (const part of ['weight', 'bias']) take(`norm.${part}`, width);
  take('head.weight', 256, width);
  return {
    weights, width, heads, layers,
    trained: wholeNumber(metadata, 'train_length', largest.trained),
    encoding: specOf(metadata),
  };
}

// Normalizes rows of `width` numbers.
function layerNorm(x, width, weight, bias) {
  const y = new Float32Array(x.length);
  for (let begin = 0; begin < x.length; begin += width) {
    let sum = 0, squares = 0;
    for (let i = 0; i < width; ++i) sum += x[begin + i];
    const mean = sum / width;
    for (let i = 0; i < width; ++i) squares += (x[begin + i] - mean) ** 2;
    const scale = 1 / Math.sqrt(squares / width + epsilon);
    for (let i = 0; i < width; ++i)
      y[begin + i] = (x[begin + i] - mean) * scale * weight[i] + bias[i];
  }
  return y;
}

// erf with an error below 1.5e-7 (Abramowitz and Stegun 1964, formula 7.1.26).
function erf(x) {
  const t = 1 / (1 + 0.3275911 * Math.abs(x));
  const sum = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 +
      t * (-1.453152027 + t * 1.061405429))));
  return Math.sign(x) * (1 - sum * Math.exp(-x * x));
}

function gelu(x) {
  for (let i = 0; i < x.length; ++i) x[i] = 0.5 * x[i] * (1 + erf(x[i] * Math.SQRT1_2));
  return x;
}

function add(x, y) {
  for (let i = 0; i < x.length; ++i) x[i] += y[i];
}

// Copies of the columns of q, k and v from rows [q, k, v].
function parts(qkv, width) {
  const tokens = qkv.length / (3 * width);
  return [0, 1, 2].map(part => {
    const one = new Float32Array(tokens * width);
    for (let t = 0; t < tokens; ++t) {
      const begin = (3 * t + part) * width;
      one.set(qkv.subarray(begin, begin + width), t * width);
    }
    return one;
  });
}

/** A model with its weights in the memory of the library. */
export class Model {
  #gnomon;
  #weights;
  #constants = new Map();

  constructor(gnomon, buffer) {
    const {weights, ...sizes} = readModel(buffer);
    Object.assign(this, sizes);
    this.#gnomon = gnomon;
    this.#weights = weights;
    for (const [name, values] of weights)
      if (/(qkv|out|feed_in|head)\.weight$/.test(name))
        this.#constants.set(name, gnomon.constant(values));
  }

  #linear(x, name, inputs, outputs) {
    return this.#gnomon.linear(x, this.#constants.get(name), null, {inputs, outputs});
  }

  #norm(x, name) {
    return layerNorm(x, this.width, this.#weights.get(`${name}.weight`),
                     this.#weights.get(`${name}.bias`));
  }

  // Rows of the embedding of each byte.
  #embed(bytes) {
    const x = new Float32Array(bytes.length * this.width), {width} = this;
    const table = this.#weights.get('embedding.weight');
    for (let t = 0; t < bytes.length; ++t)
      x.set(table.subarray(bytes[t] * width, (bytes[t] + 1) * width), t * width);
    return x;
  }

  /**
   * The logits [T, 256] of a text (Uint8Array) with a plan for T keys, and q and k of each layer
   * [T, H, D], before the rotation of the plan.
   */
  forward(bytes, plan) {
    const {width, heads, layers} = this, all = [];
    const x = this.#embed(bytes);
    add(x, plan.table(bytes.length, width));
    for (let l = 0; l < layers; ++l) {
      const block = `block${l}`;
      const qkv = this.#linear(this.#norm(x, `${block}.attention_norm`), `${block}.qkv.weight`,
                               width, 3 * width);
      const [q, k, v] = parts(qkv, width);
      all.push({q, k});
      const attended = plan.attention(q, k, v, {heads});
      add(x, this.#linear(attended, `${block}.attention_out.weight`, width, width));
      const hidden = gelu(this.#linear(this.#norm(x, `${block}.feed_norm`),
                                       `${block}.feed_in.weight`, width, 4 * width));
      add(x, this.#linear(hidden, `${block}.feed_out.weight`, 4 * width, width));
    }
    return {logits: this.#linear(this.#norm(x, 'norm'), 'head.weight', width, 256), layers: all};
  }
}

/** The probabilities of the next byte from the logits of one position. */
export function softmax(logits) {
  let most = -Infinity, sum = 0;
  for (const one of logits) most = Math.max(most, one);
  const p = Float64Array.from(logits, one => Math.exp(one - most));
  for (const one of p) sum += one;
  return p.map(one => one / sum);
}

/** -log2 of the probability of each byte after the first: bits[i] is that of bytes[i + 1]. */
export function bitsOf(logits, bytes) {
  const bits = new Float32Array(Math.max(0, bytes.length - 1));
  for (let i = 0; i < bits.length; ++i)
    bits[i] = -Math.log2(softmax(logits.subarray(256 * i, 256 * (i + 1)))[bytes[i + 1]]);
  return bits;
}
