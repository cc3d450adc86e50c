// The reader's side in the worker: runs a trained model on a text with any encoding.
//
// Letters: H heads, T bytes of the text.
import {Model, bitsOf, softmax} from './model.js';

const largestText = 8192, keptRuns = 3, cells = 128, nearBytes = 32, likeliest = 10;

const models = new Map();  // name -> Model
const runs = new Map();    // key -> a run, the latest last

/** The spec or name of an encoding, and its window, for a model and a text of `length` bytes. */
export function runtimeEncoding(model, name, length) {
  const {trained} = model;
  if (name === 'own') return {spec: model.encoding};
  if (name === 'window') return {spec: model.encoding, left: trained - 1};
  if (['linear', 'ntk', 'yarn'].includes(name)) {
    const scaling = {type: name, factor: Math.max(1, length / trained)};
    if (name === 'yarn') scaling.original_length = trained;
    return {spec: {kind: 'rotary-scaled', rotary_dim: model.width / model.heads,
                   pairing: 'halves', base: 10000, scaling, length}};
  }
  if (!name.trim().startsWith('{')) return {name: name.trim()};
  try {
    return {spec: JSON.parse(name)};
  } catch {
    throw new Error('an encoding must be a name of the list or a JSON object');
  }
}

/** The plan of an encoding for a model and a text of `length` bytes. */
export function planOf(gnomon, model, encodingName, length) {
  const {spec, name, left} = runtimeEncoding(model, encodingName, length);
  const encoding = spec ? gnomon.encoding(spec) : gnomon.encoding(
      name, {width: model.width, heads: model.heads, length: model.trained});
  try {
    return encoding.plan({keys: length, causal: true, ...(left === undefined ? {} : {left})});
  } finally {
    encoding.free();
  }
}

// The whole map [T, T] in blocks of `step`: the share of the weight of a query that is on a
// block of keys, as a mean over the queries. Blocks after the query are hidden.
function pooled(weights, tokens) {
  const step = Math.ceil(tokens / cells), rows = Math.ceil(tokens / step);
  const values = new Float32Array(rows * rows);
  for (let q = 0; q < tokens; ++q) {
    const row = Math.floor(q / step), count = Math.min(step, tokens - row * step);
    for (let k = 0; k <= q; ++k)
      values[row * rows + Math.floor(k / step)] += weights[q * tokens + k] / count;
  }
  for (let row = 0; row < rows; ++row) values.fill(NaN, row * rows + row + 1, (row + 1) * rows);
  return {values, rows, step};
}

// The map of the queries and keys up to a position.
function near(weights, tokens, position) {
  const begin = Math.max(0, position + 1 - nearBytes), rows = position + 1 - begin;
  const values = new Float32Array(rows * rows).fill(NaN);
  for (let q = 0; q < rows; ++q)
    for (let k = 0; k <= q; ++k)
      values[q * rows + k] = weights[(begin + q) * tokens + begin + k];
  return {values, rows, begin};
}

function runOf(gnomon, {model: name, encoding, bytes}) {
  const model = models.get(name);
  if (!model) throw new Error(`no model has the name ${JSON.stringify(name)}`);
  if (bytes.length < 2 || bytes.length > largestText)
    throw new Error(`a text must have 2 to ${largestText} bytes, got ${bytes.length}`);
  const key = `${name}\n${encoding}\n${bytes}`;
  const found = runs.get(key);
  if (found) {
    runs.delete(key);
    runs.set(key, found);
    return found;
  }
  const plan = planOf(gnomon, model, encoding, bytes.length);
  let made;
  try {
    made = {model, plan, ...model.forward(bytes, plan)};
  } catch (error) {
    plan.free();
    throw error;
  }
  made.bits = bitsOf(made.logits, bytes);
  runs.set(key, made);
  const [oldest] = runs.keys();
  if (runs.size > keptRuns) {
    runs.get(oldest).plan.free();
    runs.delete(oldest);
  }
  return made;
}

// The weights [T, T] of one head.
function weightsOf(run, layer, head, tokens) {
  if (run.weightsLayer !== layer) {
    const {q, k} = run.layers[layer];
    run.weights = run.plan.weights(q, k, {heads: run.model.heads});
    run.weightsLayer = layer;
  }
  return run.weights.subarray(head * tokens * tokens, (head + 1) * tokens * tokens);
}

function likeliestBytes(logits) {
  const p = softmax(logits);
  return [...p.keys()].sort((a, b) => p[b] - p[a]).slice(0, likeliest)
      .map(byte => ({byte, probability: p[byte]}));
}

function check(value, end, name) {
  if (!Number.isInteger(value) || value < 0 || value >= end)
    throw new Error(`${name} must be an integer from 0 to ${end - 1}, got ${value}`);
}

/**
 * {load: {name: ArrayBuffer}} stores models. {model, encoding, bytes, position, layer, head}
 * runs one: `encoding` is own, window, linear, ntk, yarn, a name of the list or the JSON of a
 * spec. bits[i] is the loss of bytes[i + 1]; `next` is after bytes[position].
 */
export function compute(gnomon, request) {
  if (request.load) {
    for (const [name, buffer] of Object.entries(request.load))
      models.set(name, new Model(gnomon, buffer));
    return {loaded: [...models.keys()]};
  }
  const {bytes, position, layer, head} = request, run = runOf(gnomon, request);
  check(position, bytes.length, 'position');
  check(layer, run.model.layers, 'layer');
  check(head, run.model.heads, 'head');
  const weights = weightsOf(run, layer, head, bytes.length);
  const row = weights.slice(position * bytes.length, position * bytes.length + position + 1);
  return {
    tokens: bytes.length,
    trained: run.model.trained,
    bits: run.bits.slice(),
    next: likeliestBytes(run.logits.subarray(256 * position, 256 * (position + 1))),
    whole: pooled(weights, bytes.length),
    near: near(weights, bytes.length, position),
    row,
  };
}
