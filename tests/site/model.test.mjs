// The trained models in JavaScript: the file format, the logits and the losses.
//
//   GNOMON_WASM=build/wasm/index.js GNOMON=build/release/apps/cli/gnomon \
//     node --test tests/site/model.test.mjs
//
// $GNOMON, if it is set, computes the losses of the same weights with the lab.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {mkdtempSync, readFileSync, rmSync, writeFileSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join, resolve} from 'node:path';
import test from 'node:test';
import {pathToFileURL} from 'node:url';

import {Model, bitsOf, readModel, softmax} from '../../apps/site/web/model.js';
import {compute, planOf, runtimeEncoding} from '../../apps/site/web/reader_compute.js';
import {characters, extended, smoothed} from '../../apps/site/web/reader.js';
import {lossesOf, say} from '../../apps/site/web/reader_text.js';
import {readSafetensors} from '../../apps/site/web/safetensors.js';

const root = resolve(import.meta.dirname, '../..');
const data = join(root, 'docs/book/data');
const reader = JSON.parse(readFileSync(join(data, 'reader.json'), 'utf8'));
const expectedLogits =
    JSON.parse(readFileSync(join(root, 'tests/site/data/reader-logits.json'), 'utf8'));
const wasm = resolve(root, process.env.GNOMON_WASM ?? 'build/wasm/index.js');
const {load} = await import(pathToFileURL(wasm));
const gnomon = await load();

// Of logits up to 20, computed in float32 in another order, and rounded to 4 decimals.
const logitBound = 5e-4;
// Of mean losses in bits per byte.
const lossBound = 5e-4;

const fileOf = name => {
  const {buffer, byteOffset, length} =
      readFileSync(join(data, reader.models.find(one => one.name === name).file));
  return buffer.slice(byteOffset, byteOffset + length);
};
const models = new Map(reader.models.map(({name}) => [name, new Model(gnomon, fileOf(name))]));
const sample = new TextEncoder().encode(reader.sample);

function forward(name, encoding, bytes) {
  const plan = planOf(gnomon, models.get(name), encoding, bytes.length);
  const found = models.get(name).forward(bytes, plan);
  plan.free();
  return found;
}

// A file with a header (an object, or the text of one) and some bytes of data.
function file(header, size = 0) {
  const text = new TextEncoder().encode(
      typeof header === 'string' ? header : JSON.stringify(header));
  const bytes = new Uint8Array(8 + text.length + size);
  new DataView(bytes.buffer).setUint32(0, text.length, true);
  bytes.set(text, 8);
  return bytes.buffer;
}

test('float16 values are exact', () => {
  const bits = [0x0000, 0x3c00, 0xc000, 0x7bff, 0x0001, 0x03ff, 0x3555, 0x7c00];
  const expected = [0, 1, -2, 65504, 2 ** -24, 1023 * 2 ** -24, 0.333251953125, Infinity];
  const buffer = file({x: {dtype: 'F16', shape: [2, 4], data_offsets: [0, 16]}}, 16);
  const view = new DataView(buffer, buffer.byteLength - 16);
  bits.forEach((one, i) => view.setUint16(2 * i, one, true));
  const {shape, values} = readSafetensors(buffer).tensors.get('x');
  assert.deepEqual(shape, [2, 4]);
  assert.deepEqual([...values], expected);
});

test('damaged files are refused with one line', () => {
  const entry = {dtype: 'F16', shape: [2], data_offsets: [0, 4]};
  const bad = [
    new ArrayBuffer(0), new ArrayBuffer(7), file('{'), file('[]'), file('null'), file('"x"'),
    fileOf('rotary').slice(0, 100), fileOf('rotary').slice(0, 100000),
    file({x: null}), file({x: entry}, 3),
    file({x: {...entry, dtype: 'F64'}}, 8), file({x: {...entry, dtype: 'toString'}}, 8),
    file({x: {...entry, shape: [-2]}}, 8), file({x: {...entry, shape: [1.5]}}, 8),
    file({x: {...entry, shape: 2}}, 8), file({x: {...entry, shape: [3]}}, 8),
    file({x: {...entry, shape: Array(8).fill(2 ** 50)}}, 8),
    file({x: {...entry, data_offsets: [4, 0]}}, 8), file({x: {...entry, data_offsets: [-4, 0]}}, 8),
    file({x: {...entry, data_offsets: [2 ** 53, 2 ** 53 + 4]}}, 8),
    file({x: {...entry, data_offsets: [0]}}, 8), file({__metadata__: {a: 1}}),
    file({__metadata__: null}),
  ];
  for (const [i, buffer] of bad.entries())
    assert.throws(() => readSafetensors(buffer), /^Error: safetensors: [^\n]+$/, `file ${i}`);
  const huge = new Uint8Array(file({x: entry}, 4));
  huge[7] = 0xff;  // the high byte of the size of the header
  assert.throws(() => readSafetensors(huge.buffer), /the header ends after the file/);
});

test('a header cannot reach the prototype of objects', () => {
  readSafetensors(file('{"__proto__": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]}}', 2));
  assert.equal({}.dtype, undefined);
});

test('models of other sizes are refused', () => {
  const text = new TextDecoder('latin1').decode(fileOf('rotary'));
  for (const [from, to, message] of [
    ['"heads":"4"', '"heads":"5"', /heads must divide/],
    ['"heads":"4"', '"heads":"0"', /heads must be an integer/],
    ['"layers":"4"', '"layers":"5"', /block4/],
    ['block0.qkv', 'block0.qkw', /block0.qkv.weight must be/],
    ['"encoding":"{', '"encoding":"[', /encoding must be JSON/],
  ]) {
    const compact = text.replace(from, to);
    assert.notEqual(compact, text, from);
    const buffer = Uint8Array.from(compact, c => latin1.get(c) ?? c.charCodeAt(0)).buffer;
    assert.throws(() => readModel(buffer), message);
  }
});
// TextDecoder reads latin1 as windows-1252, which moves some bytes.
const latin1 = new Map(Array.from({length: 256}, (_, byte) =>
    [new TextDecoder('latin1').decode(Uint8Array.of(byte)), byte]));

test('logits equal those of NumPy', () => {
  for (const {name} of reader.models)
    for (const [i, expected] of expectedLogits[name].entries()) {
      const bytes = sample.subarray(0, reader.lengths[i]);
      const {logits} = forward(name, 'own', bytes);
      const last = logits.subarray(256 * (bytes.length - 1));
      const worst = Math.max(...last.map((one, j) => Math.abs(one - expected[j])));
      assert.ok(worst < logitBound, `${name} at ${bytes.length}: ${worst}`);
    }
});

test('specs at run time are those of the measurement', () => {
  for (const {name, runs} of reader.models)
    for (const {encoding, own, specs, left} of runs)
      for (const [i, length] of reader.lengths.entries()) {
        const model = models.get(name);
        const found = runtimeEncoding(model, own ? 'own' : encoding, length);
        assert.equal(found.left ?? null, left);
        const made = found.spec ? gnomon.encoding(found.spec) : gnomon.encoding(
            found.name, {width: model.width, heads: model.heads, length: model.trained});
        assert.deepEqual(made.spec, specs[i] ?? specs[0], `${name} with ${encoding}`);
        made.free();
      }
});

// The loss of the second half of the windows of a test segment, as the lab measures it.
function segmentLoss(name, encoding, text, firstTarget, length, longest) {
  let sum = 0, count = 0;
  for (let w = 0; w < 2 * longest / length; ++w) {
    const begin = firstTarget - 1 + (w - 1) * (length / 2);
    const {logits} = forward(name, encoding, text.subarray(begin, begin + length));
    const bits = bitsOf(logits, text.subarray(begin, begin + length));
    for (let i = length / 2; i < length - 1; ++i, ++count) sum += bits[i];
    // The last target follows the window.
    const last = softmax(logits.subarray(256 * (length - 1)));
    sum -= Math.log2(last[text[begin + length]]);
    ++count;
  }
  return sum / count;
}

function writeFolder(name) {
  const folder = mkdtempSync(join(tmpdir(), 'gnomon-model-'));
  const {weights, encoding, layers, width, heads, trained} = readModel(fileOf(name));
  const {tensors} = readSafetensors(fileOf(name)), header = {};
  let at = 0;
  for (const key of weights.keys()) {
    const {shape, values} = tensors.get(key);
    header[key] = {dtype: 'F32', shape, data_offsets: [at, at += values.byteLength]};
  }
  const buffer = file(header, at), begin = buffer.byteLength - at;
  for (const [key, values] of weights)
    new Uint8Array(buffer, begin + header[key].data_offsets[0], values.byteLength)
        .set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength));
  writeFileSync(join(folder, 'model.safetensors'), new Uint8Array(buffer));
  writeFileSync(join(folder, 'config.json'), JSON.stringify({
    model_type: 'gnomon-lab', gnomon: '0.1.0', encoding: name, seed: 1,
    position: {layers: Array(layers).fill([encoding])},
    settings: {
      preset: 'default', task: 'text', encodings: [name], extend: [], texts: [], tokens: 'bytes',
      train_length: trained, eval_lengths: reader.lengths, layers, width, heads, seeds: [1],
      steps: reader.steps, batch: reader.batch, learning_rate: 0.008, eval_segments: 48,
      device: 'cpu', position_rate: 10,
    },
    lengths: [],
  }));
  return folder;
}

test('losses equal those of gnomon evaluate', {skip: !process.env.GNOMON}, () => {
  const path = join(root, 'apps/lab/data/austen/northanger_abbey.txt'), lengths = [128, 512];
  const text = new Uint8Array(readFileSync(path)), longest = lengths.at(-1);
  for (const {name} of reader.models) {
    const folder = writeFolder(name);
    try {
      const {lengths: expected} = JSON.parse(execFileSync(
          resolve(root, process.env.GNOMON), ['evaluate', folder, path, '--segments', '1',
          '--lengths', lengths.join(), '--json'], {encoding: 'utf8'}));
      for (const [i, length] of lengths.entries()) {
        const found = segmentLoss(name, 'own', text, longest / 2 + 1, length, longest);
        const difference = Math.abs(found - expected[i].tail_bits);
        assert.ok(difference < lossBound, `${name} at ${length}: ${difference}`);
      }
    } finally {
      rmSync(folder, {recursive: true});
    }
  }
});

test('every measured encoding runs, and the weights of each query sum to 1', () => {
  compute(gnomon, {load: Object.fromEntries(reader.models.map(
      ({name}) => [name, fileOf(name)]))});
  const bytes = sample.subarray(0, 200);
  for (const {name, runs} of reader.models)
    for (const {encoding, own} of runs) {
      const result = compute(gnomon, {model: name, encoding: own ? 'own' : encoding, bytes,
                                      position: 150, layer: 3, head: 2});
      const what = `${name} with ${encoding}`;
      assert.equal(result.bits.length, 199, what);
      assert.ok(result.bits.every(one => one > 0 && one < 40), what);
      assert.ok(Math.abs(result.row.reduce((a, b) => a + b) - 1) < 1e-4, what);
      const {values, rows} = result.whole;
      for (let r = 0; r < rows; ++r) {
        const sum = values.subarray(r * rows, r * rows + r + 1).reduce((a, b) => a + b);
        assert.ok(Math.abs(sum - 1) < 1e-4, `${what}, row ${r}`);
      }
      assert.equal(result.next.length, 10);
      assert.ok(result.next.every((one, j, all) => !j ||
          one.probability <= all[j - 1].probability), what);
    }
});

test('requests that cannot be answered have one error', () => {
  const good = {model: 'rotary', encoding: 'own', bytes: sample.subarray(0, 40), position: 3,
                layer: 0, head: 0};
  for (const [change, message] of [
    [{model: 'gpt'}, /no model/], [{encoding: 'roppe'}, /roppe/], [{encoding: '{'}, /JSON/],
    [{encoding: '{"kind": "rotary", "rotary_dim": 7, "pairing": "halves"}'}, /rotary/],
    [{position: 40}, /position/], [{layer: 4}, /layer/], [{head: -1}, /head/],
    [{bytes: sample.subarray(0, 1)}, /bytes/], [{encoding: 'learned', bytes: sample}, /./],
  ]) assert.throws(() => compute(gnomon, {...good, ...change}), message, JSON.stringify(change));
});

test('a text is extended to the length', () => {
  const text = length => new TextDecoder().decode(extended('ab', 'xyz', length, 100).bytes);
  assert.equal(text(8), 'ab xyz x');
  assert.equal(text(1), 'ab');
  assert.equal(extended('é'.repeat(80), 'x', 10, 100).bytes.length, 100);
  assert.equal(new TextDecoder().decode(extended('', 'xyz', 4, 100).bytes), 'xyz ');
});

test('characters cover all bytes', () => {
  for (const bytes of [new TextEncoder().encode('aé猫😀b'), Uint8Array.of(0xe7, 0x8c, 65, 0xff),
                       Uint8Array.of(65, 0xf0, 0x9f)]) {
    const all = characters(bytes);
    assert.equal(all[0].begin, 0);
    assert.equal(all.at(-1).end, bytes.length);
    all.slice(1).forEach((one, i) => assert.equal(one.begin, all[i].end));
  }
  assert.deepEqual(characters(new TextEncoder().encode('aé猫')).map(one => one.text),
                   ['a', 'é', '猫']);
});

test('means and sentences follow from the numbers', () => {
  assert.deepEqual([...smoothed([0, 3, 6], 1)], [1.5, 3, 4.5]);
  const bits = Float32Array.from({length: 300}, (_, i) => i < 128 ? 2 : 5);
  const result = {bits, trained: 128, tokens: 301, next: [{byte: 32, probability: 0.5}],
                  row: Float32Array.of(0.1, 0.7, 0.2)};
  assert.deepEqual(lossesOf(result), {inside: 2, beyond: 5});
  const said = say(result, {model: 'rotary', encoding: 'yarn', position: 2}, 'en');
  assert.match(said, /is 2 bits .* and 5 beyond byte 128/);
  assert.match(said, /“space” \(50 %\).*0\.7, on the key at distance 1\./);
  assert.match(say(result, {model: 'none', encoding: 'none', position: 2}, 'zh'), /5。/);
});
