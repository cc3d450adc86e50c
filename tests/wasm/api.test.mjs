// The interface of the package: shapes, errors, memory.
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {test} from 'node:test';
import {Worker} from 'node:worker_threads';

import {folder, GnomonError, gnomon, load} from './package.mjs';

const close = (got, wanted, bound) =>
  got.length === wanted.length && got.every((x, i) => Math.abs(x - wanted[i]) <= bound);
const refused = (call, message, status = 1) => assert.throws(call, error => {
  assert.ok(error instanceof GnomonError, String(error));
  assert.equal(error.status, status);
  assert.match(error.message, message);
  return true;
});
const llama = {model_type: 'llama', hidden_size: 64, num_attention_heads: 8,
               num_key_value_heads: 2, num_hidden_layers: 3, max_position_embeddings: 128,
               rope_theta: 500000};

test('the package is that of this version', () => {
  const {version} = JSON.parse(readFileSync(`${folder}/package.json`, 'utf8'));
  assert.equal(gnomon.version, version);
  assert.equal(gnomon.isa, 'wasm');
});

test('load takes bytes and a compiled module', async () => {
  const bytes = readFileSync(`${folder}/gnomon.wasm`);
  assert.equal((await load(bytes)).version, gnomon.version);
  assert.equal((await load(new WebAssembly.Module(bytes))).version, gnomon.version);
});

test('a worker computes the same', async () => {
  const text = `
    import {parentPort, workerData} from 'node:worker_threads';
    const {load} = await import(workerData.folder + '/index.js');
    parentPort.postMessage((await load()).normal(8, 3));`;
  const worker = new Worker(new URL(`data:text/javascript,${encodeURIComponent(text)}`),
                            {workerData: {folder: `file://${folder}`}});
  const got = await new Promise((resolve, reject) => {
    worker.once('message', resolve).once('error', reject);
  });
  assert.deepEqual(got, gnomon.normal(8, 3));
});

test('rotation turns pairs by position times frequency', () => {
  const x = gnomon.normal(3 * 4, 1);
  const frequencies = [1, 0.25];
  const got = gnomon.rotate(x, [0, 1, 5], {heads: 1, rotaryDim: 4, pairing: 'halves', frequencies});
  const wanted = [...x];
  [0, 1, 5].forEach((position, t) => frequencies.forEach((frequency, i) => {
    const [a, b] = [x[4 * t + i], x[4 * t + i + 2]];
    const angle = position * frequency;
    wanted[4 * t + i] = a * Math.cos(angle) - b * Math.sin(angle);
    wanted[4 * t + i + 2] = a * Math.sin(angle) + b * Math.cos(angle);
  }));
  assert.ok(close(got, wanted, 1e-6));
  const back = gnomon.rotate(got, [0, 1, 5], {heads: 1, rotaryDim: 4, pairing: 'halves',
                                              frequencies, inverse: true});
  assert.ok(close(back, x, 1e-6));
});

test('weights are a softmax of scores, and the output their sum of values', () => {
  const [tokens, heads, keyHeads, size] = [6, 4, 2, 8];
  const q = gnomon.normal(tokens * heads * size, 1);
  const k = gnomon.normal(tokens * keyHeads * size, 2);
  const v = gnomon.normal(tokens * keyHeads * 3, 3);
  for (const causal of [true, false]) {
    const plan = gnomon.encoding('alibi', {width: 32, heads: 4, length: 16,
                                           reads: causal ? 'causal' : 'bidirectional'})
      .plan({keys: tokens, causal});
    const scores = plan.scores(q, k, {heads, keyHeads});
    const weights = plan.weights(q, k, {heads, keyHeads});
    const out = plan.attention(q, k, v, {heads, keyHeads});
    const slopes = gnomon.alibiSlopes(heads);
    for (let h = 0; h < heads; ++h)
      for (let i = 0; i < tokens; ++i) {
        const row = scores.slice((h * tokens + i) * tokens, (h * tokens + i + 1) * tokens);
        row.forEach((score, j) => {
          if (causal && j > i) return assert.equal(score, -Infinity);
          let product = 0;
          for (let d = 0; d < size; ++d)
            product += q[(i * heads + h) * size + d] * k[(j * keyHeads + (h >> 1)) * size + d];
          const wanted = product / Math.sqrt(size) - slopes[h] * Math.abs(i - j);
          assert.ok(Math.abs(score - wanted) < 2e-6);
        });
        const sum = row.reduce((total, score) => total + Math.exp(score), 0);
        const of = row.map(score => Math.exp(score) / sum);
        assert.ok(close(weights.slice((h * tokens + i) * tokens, (h * tokens + i + 1) * tokens),
                        of, 1e-6));
        for (let d = 0; d < 3; ++d) {
          const wanted = of.reduce((a, w, j) => a + w * v[(j * keyHeads + (h >> 1)) * 3 + d], 0);
          assert.ok(Math.abs(out[(i * heads + h) * 3 + d] - wanted) < 1e-5);
        }
      }
  }
});

test('fewer queries than keys are the last ones', () => {
  const [q, k, v] = [1, 2, 3].map(seed => gnomon.normal(8 * 32, seed));
  const encodings = ['rotary', 'alibi', 't5', 'shaw', 'rotary-plus-plus'].map(
    name => gnomon.encoding(name, {width: 32, heads: 2, length: 16}));
  for (const encoding of encodings) {
    const all = encoding.plan({keys: 8}).attention(q, k, v, {heads: 2});
    const last = encoding.plan({keys: 8, queries: 3}).attention(q.slice(5 * 32), k, v, {heads: 2});
    assert.ok(close(last, all.slice(5 * 32), 2e-6), encoding.kind);
  }
});

test('a plan without position takes sizes from headDim', () => {
  const [q, k, v] = [1, 2, 3].map(seed => gnomon.normal(4 * 16, seed));
  const sized = gnomon.plan({keys: 4}).attention(q, k, v, {heads: 2});
  assert.deepEqual(gnomon.plan().attention(q, k, v, {heads: 2, headDim: 8}), sized);
  const window = gnomon.plan({keys: 4, left: 0}).weights(q, k, {heads: 2});
  assert.deepEqual([...window.slice(0, 8)], [1, 0, 0, 0, 0, 1, 0, 0]);
  refused(() => gnomon.plan().attention(q, k, v, {heads: 2}), /headDim/);
});

test('a released model: description, parameters, plan, cache', () => {
  const model = gnomon.model(llama);
  assert.equal(model.describe().model_type, 'llama');
  assert.equal(model.describe(77).length, 77);
  assert.deepEqual(model.layerParameters(0), []);
  const [q, k, v] = [[6 * 64, 1], [6 * 16, 2], [6 * 16, 3]].map(
    ([count, seed]) => gnomon.normal(count, seed));
  const options = {heads: 8, keyHeads: 2};
  const all = model.plan(1, {keys: 6}).attention(q, k, v, options);
  const last = model.plan(1, {keys: 6, queries: 1}).attention(q.slice(5 * 64), k, v, options);
  assert.ok(close(last, all.slice(5 * 64), 1e-6));
  const rotated = gnomon.rotate(q, [0, 1, 2, 3, 4, 5],
                                {heads: 8, rotaryDim: 8, pairing: 'halves', base: 500000});
  assert.deepEqual(model.plan(1, {keys: 6}).prepare(q, k, options).q, rotated);
  const unknown = {...llama, model_type: 'newmodel'};
  refused(() => gnomon.model(unknown), /newmodel/, 2);
  const group = gnomon.model(JSON.stringify(unknown), {pairing: 'adjacent'}).describe().groups[0];
  assert.equal(group.pairing, 'adjacent');
});

test('a linear layer, from arrays and from constants', () => {
  for (const [tokens, inputs, outputs] of [[1, 1, 1], [3, 7, 5], [4, 64, 32], [5, 10, 9]]) {
    const x = gnomon.normal(tokens * inputs, 1), weight = gnomon.normal(outputs * inputs, 2);
    const bias = gnomon.normal(outputs, 3);
    const wanted = [];
    for (let t = 0; t < tokens; ++t)
      for (let n = 0; n < outputs; ++n) {
        let sum = bias[n];
        for (let c = 0; c < inputs; ++c) sum += x[t * inputs + c] * weight[n * inputs + c];
        wanted.push(sum);
      }
    const got = gnomon.linear(x, weight, bias, {inputs, outputs});
    assert.ok(close(got, wanted, 1e-5));
    const constants = [weight, bias].map(values => gnomon.constant(values));
    assert.deepEqual(gnomon.linear(x, ...constants, {inputs, outputs}), got);
    const row = gnomon.linear(x.slice((tokens - 1) * inputs), weight, bias, {inputs, outputs});
    assert.deepEqual(row, got.slice((tokens - 1) * outputs));
    constants.forEach(one => one.free());
    refused(() => gnomon.linear(x, ...constants, {inputs, outputs}), /freed/);
  }
  const x = gnomon.normal(4 * 8, 1);
  const constant = gnomon.constant(x);
  const plan = gnomon.encoding('rotary', {width: 8, heads: 1, length: 8}).plan({keys: 4});
  const once = plan.attention(x, constant, constant, {heads: 1});
  assert.deepEqual(plan.attention(x, constant, constant, {heads: 1}), once);
  assert.deepEqual(plan.attention(x, x, x, {heads: 1}), once);
});

test('verdicts on the properties of every encoding', () => {
  const {verdicts} = gnomon.check('alibi', {trained: 32, length: 64});
  const word = property => verdicts.find(one => one.property === property).word;
  assert.equal(word('distance'), 'yes');
  assert.equal(word('nearer'), 'yes');
  for (const {name} of gnomon.encodings())
    assert.ok(gnomon.check(name, {width: 64, heads: 2, trained: 16, length: 32})
      .verdicts.every(one => one.word && one.sentence), name);
  refused(() => gnomon.check('none such'), /none such/);
  refused(() => gnomon.check('rotary', {trained: 8}), /trained must be 16 to 4096/);
});

test('wrong arguments give the message of the library', () => {
  const shape = {width: 8, heads: 1, length: 8};
  refused(() => gnomon.encoding({kind: 'rotary', rotary_dim: 7, pairing: 'halves'}).plan({keys: 2}),
          /^\[rotary\] rotary_dim must be even.*got 7$/);
  refused(() => gnomon.encoding('none such', shape), /none such/);
  refused(() => gnomon.encoding('rotary', {...shape, heads: 3}), /heads must divide width/);
  refused(() => gnomon.encoding('rotary', {...shape, width: 1.5}), /width must be an integer/);
  refused(() => gnomon.encoding('rotary'), /shape/);
  refused(() => gnomon.encoding(7), /name must be a string/);
  refused(() => gnomon.encoding('rotary', {...shape, reads: 'toString'}), /reads/);
  refused(() => gnomon.model('{'), /not JSON/, 2);
  refused(() => gnomon.sinusoidal([0.5], 8), /positions must be integers, got 0.5/);
  refused(() => gnomon.rotate(new Float32Array(6), [0], {heads: 1, rotaryDim: 4}), /pairing/);
  refused(() => gnomon.rotate([1, 2], [0], {heads: 1, rotaryDim: 2, pairing: 'halves'}),
          /Float32Array/);
  const plan = gnomon.encoding('rotary', shape).plan({keys: 2});
  refused(() => plan.attention(new Float32Array(3), new Float32Array(16), new Float32Array(16),
                               {heads: 1}), /whole number/);
  refused(() => plan.table(2, -1), /width/);
  refused(() => gnomon.encoding('t5', shape).plan({keys: 2, parameters: []}), /1 matrices, got 0/);
  refused(() => gnomon.encoding('rotary', shape).plan({keys: 2, queries: 3}), /at most keys/);
  plan.free();
  plan.free();
  refused(() => plan.bias(1, 2, 2), /freed/);
});

test('sizes beyond the memory are refused, and the library goes on', () => {
  const encoding = gnomon.encoding('alibi', {width: 8, heads: 1, length: 8});
  refused(() => encoding.plan({keys: 2 ** 33}), /2\^31/);
  refused(() => encoding.plan({keys: 2 ** 31}).bias(1, 2 ** 20, 2 ** 20), /memory/, 3);
  refused(() => gnomon.encoding('learned', {width: 2 ** 20, heads: 1, length: 2 ** 20})
    .randomParameters(), /memory/, 3);
  refused(() => gnomon.encoding('t5', {width: 8, heads: 1, length: 8}).plan({keys: 2 ** 31}),
          /must fit in memory/);
  assert.equal(gnomon.normal(3, 1).length, 3);
});

test('1000 calls and 1000 errors leave the memory as it is', async () => {
  const own = await load();
  const x = own.normal(32 * 32, 1);
  const constant = own.constant(x);
  const one = () => {
    const encoding = own.encoding('t5', {width: 32, heads: 2, length: 64});
    const plan = encoding.plan({keys: 32});
    plan.attention(x, constant, x, {heads: 2});
    plan.weights(x, x, {heads: 2});
    plan.bias(2, 32, 32);
    encoding.free();
    plan.free();
    own.sinusoidal([0, 1, 2], 64);
    own.linear(x, constant, null, {inputs: 32, outputs: 32});
    assert.throws(() => own.encoding('none such', {width: 8, heads: 1, length: 8}), GnomonError);
    const model = own.model(llama);
    model.plan(0, {keys: 4, queries: 2}).free();
    model.free();
  };
  const size = () => own.memoryBytes;
  for (let i = 0; i < 20; ++i) one();
  const before = size();
  for (let i = 0; i < 1000; ++i) one();
  assert.equal(size(), before);
});

test('the collector frees what is not freed', {skip: !globalThis.gc}, async () => {
  const own = await load();
  const make = () => own.encoding('alibi', {width: 32, heads: 2, length: 64}).plan({keys: 4096});
  for (let i = 0; i < 200; ++i) make();
  const before = own.memoryBytes;
  for (let round = 0; round < 20; ++round) {
    for (let i = 0; i < 200; ++i) make();
    globalThis.gc();
    await new Promise(resolve => setTimeout(resolve, 5));
  }
  assert.ok(own.memoryBytes < before + 2 ** 22);
});
