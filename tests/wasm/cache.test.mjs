// Decoding with a cache, beside attention of all tokens in loops in double.
import assert from 'node:assert/strict';
import {test} from 'node:test';

import {GnomonError, gnomon, load} from './package.mjs';

const HEADS = 4, KEY_HEADS = 2, HEAD_DIM = 16, TOKENS = 12;
const config = {model_type: 'llama', hidden_size: HEADS * HEAD_DIM, num_attention_heads: HEADS,
                num_key_value_heads: KEY_HEADS, num_hidden_layers: 1, max_position_embeddings: 64,
                rope_theta: 500000};
const sizes = {capacity: TOKENS, keyHeads: KEY_HEADS, headDim: HEAD_DIM};
const refused = (call, message) => assert.throws(call, error => {
  assert.ok(error instanceof GnomonError, String(error));
  assert.match(error.message, message);
  return true;
});

// Rotates x [T, heads, D] by halves.
function rotated(x, heads) {
  const out = Float64Array.from(x), half = HEAD_DIM / 2;
  for (let row = 0; row < x.length / HEAD_DIM; ++row)
    for (let i = 0; i < half; ++i) {
      const angle = Math.floor(row / heads) * 500000 ** (-2 * i / HEAD_DIM);
      const at = row * HEAD_DIM + i, [a, b] = [x[at], x[at + half]];
      out[at] = a * Math.cos(angle) - b * Math.sin(angle);
      out[at + half] = a * Math.sin(angle) + b * Math.cos(angle);
    }
  return out;
}

// Causal attention; `window`: the keys that a query sees.
function attended(q, k, v, window = Infinity) {
  const out = new Float64Array(q.length);
  for (let t = 0; t < TOKENS; ++t)
    for (let h = 0; h < HEADS; ++h) {
      const to = (t * HEADS + h) * HEAD_DIM;
      const from = s => (s * KEY_HEADS + Math.floor(h / (HEADS / KEY_HEADS))) * HEAD_DIM;
      const weights = [];
      for (let s = 0; s <= t; ++s) {
        let dot = 0;
        for (let d = 0; d < HEAD_DIM; ++d) dot += q[to + d] * k[from(s) + d];
        weights.push(t - s < window ? Math.exp(dot / Math.sqrt(HEAD_DIM)) : 0);
      }
      const sum = weights.reduce((a, b) => a + b, 0);
      weights.forEach((weight, s) => {
        for (let d = 0; d < HEAD_DIM; ++d) out[to + d] += weight / sum * v[from(s) + d];
      });
    }
  return out;
}

const q = gnomon.normal(TOKENS * HEADS * HEAD_DIM, 1);
const [k, v] = [2, 3].map(seed => gnomon.normal(TOKENS * KEY_HEADS * HEAD_DIM, seed));
const rows = (x, heads, from, to) => x.slice(from * heads * HEAD_DIM, to * heads * HEAD_DIM);

function decoded(model, cache) {
  const out = [];
  for (const count of [5, 1, 1, 2, 3]) {
    const past = cache.length, keys = past + count;
    const plan = model.plan(0, {queries: count, keys});
    out.push(...plan.decode(rows(q, HEADS, past, keys), rows(k, KEY_HEADS, past, keys),
                            rows(v, KEY_HEADS, past, keys), cache, {heads: HEADS}));
    plan.free();
  }
  return out;
}

test('steps over a cache equal attention of all tokens', () => {
  const cache = gnomon.cache(sizes);
  const wanted = attended(rotated(q, HEADS), rotated(k, KEY_HEADS), v);
  for (let round = 0; round < 2; ++round) {
    const got = decoded(gnomon.model(config), cache);
    assert.ok(got.every((x, i) => Math.abs(x - wanted[i]) < 2e-6));
    assert.equal(got.length, wanted.length);
    assert.equal(cache.length, TOKENS);
    cache.clear();
    assert.equal(cache.length, 0);
  }
  cache.free();
});

test('a sliding window hides keys of the cache', () => {
  const windowed = gnomon.model({...config, model_type: 'mistral', sliding_window: 3});
  const got = decoded(windowed, gnomon.cache(sizes));
  const wanted = attended(rotated(q, HEADS), rotated(k, KEY_HEADS), v, 3);
  assert.ok(got.every((x, i) => Math.abs(x - wanted[i]) < 2e-6));
});

test('wrong caches, plans and lengths are refused', () => {
  const model = gnomon.model(config), cache = gnomon.cache({...sizes, capacity: 2});
  const step = (plan, count, of = cache) => plan.decode(
    rows(q, HEADS, 0, count), rows(k, KEY_HEADS, 0, count), rows(v, KEY_HEADS, 0, count), of,
    {heads: HEADS});
  refused(() => gnomon.cache({...sizes, headDim: 0}), /headDim must be an integer of at least 1/);
  refused(() => gnomon.cache({capacity: 1, keyHeads: 1}), /headDim/);
  refused(() => step(model.plan(0, {keys: 3}), 3), /at most the capacity, 2, got 3/);
  assert.equal(cache.length, 0);
  refused(() => step(model.plan(0, {keys: 3, queries: 1}), 1), /0 keys before the queries, got 2/);
  refused(() => step(model.plan(0, {keys: 1}), 1, {}), /cache must be one of cache\(\)/);
  refused(() => step(gnomon.plan({keys: 1}), 1), /plan must be that of a layer/);
  refused(() => model.plan(0, {keys: 1}).decode(q, k, v, cache, {heads: HEADS}), /64 elements/);
  cache.free();
  refused(() => step(model.plan(0, {keys: 1}), 1), /must not be freed/);
});

test('1000 steps leave the memory as it is', async () => {
  const own = await load();
  const model = own.model(config), cache = own.cache(sizes);
  const one = () => {
    cache.clear();
    decoded(model, cache);
  };
  for (let i = 0; i < 20; ++i) one();
  const before = own.memoryBytes;
  for (let i = 0; i < 200; ++i) one();
  assert.equal(own.memoryBytes, before);
});
