// The numbers of the module beside those of the native library, which GNOMON_RECORDED
// (tests/wasm/recorded.c) writes: with SSE4, which has no FMA and vectors of the size of
// WebAssembly's, and with the best instruction set of this machine.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {mkdirSync, readFileSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';

import {GnomonError, gnomon, root} from './package.mjs';

const TOKENS = 16, HEADS = 4, WIDTH = 128, LENGTH = 64;
const work = join(root, 'build/wasm-test');
const configs = JSON.parse(readFileSync(join(root, 'tests/model/tiny_configs.json'), 'utf8'));

const range = count => Array.from({length: count}, (_, i) => i);
const normal = (seed, count) => gnomon.normal(count, seed);

// Runs the native program; {key: numbers, message or JSON}.
function native(isa) {
  mkdirSync(join(work, 'configs'), {recursive: true});
  const names = Object.keys(configs).map(name => {
    writeFileSync(join(work, 'configs', name), JSON.stringify(configs[name].config));
    return join('configs', name);
  });
  execFileSync(process.env.GNOMON_RECORDED, ['recorded.tsv', ...names],
               {cwd: work, env: {...process.env, ...(isa && {GNOMON_ISA: isa})}});
  const results = new Map();
  for (const line of readFileSync(join(work, 'recorded.tsv'), 'utf8').split('\n')) {
    const [key, value] = line.split('\t');
    if (key) results.set(key, value);
  }
  return results;
}

function numbersOf(key, hex) {
  const bytes = new Uint8Array(Buffer.from(hex, 'hex')).buffer;
  return /^(rotary\.frequencies|alibi\.slopes)$/.test(key) ? new Float64Array(bytes)
    : new Float32Array(bytes);
}

// The same calls as recorded.c, as {key: numbers or GnomonError}.
function* ours() {
  const positions = [0, 1, 7, 1000, 131072, 2147483647];
  for (const layout of ['interleaved', 'half-split', 'tensor2tensor'])
    yield [`sinusoidal.${layout}`, () => gnomon.sinusoidal(positions, 64, {layout})];
  const rotary = gnomon.encoding({kind: 'rotary', rotary_dim: 64, pairing: 'halves', base: 500000});
  const frequencies = rotary.frequencies();
  yield ['rotary.frequencies', () => frequencies];
  for (const part of ['cos', 'sin'])
    yield [`rotary.${part}`, () => gnomon.cosSin(positions, frequencies)[part]];
  yield ['alibi.slopes', () => gnomon.alibiSlopes(12)];
  yield ['normal.7', () => normal(7, 1000)];
  for (const pairing of ['halves', 'adjacent'])
    for (const direction of ['forward', 'inverse'])
      yield [`${pairing}.${direction}`, () => gnomon.rotate(
        normal(5, 128 * 2 * 64), range(128),
        {heads: 2, rotaryDim: 48, pairing, headOffset: 8, inverse: direction === 'inverse'})];
  const [q, k, v] = [1, 2, 3].map(seed => normal(seed, TOKENS * WIDTH));
  for (const {name} of gnomon.encodings()) {
    const encoding = gnomon.encoding(name, {width: WIDTH, heads: HEADS, length: LENGTH});
    const plan = encoding.plan({keys: TOKENS});
    yield [`${name}.plan`, () => new Float32Array(TOKENS * WIDTH)];
    yield [`${name}.table`, () => plan.table(TOKENS, WIDTH)];
    yield [`${name}.bias`, () => plan.bias(HEADS, TOKENS, TOKENS)];
    for (const part of ['q', 'k'])
      yield [`${name}.${part}`, () => plan.prepare(q, k, {heads: HEADS})[part]];
    yield [`${name}.attention`, () => plan.attention(q, k, v, {heads: HEADS})];
    for (const part of ['weights', 'scores'])
      yield [`${name}.${part}`, () => plan[part](q, k, {heads: HEADS})];
    plan.free();
    encoding.free();
  }
}

// The largest difference of two arrays, or of two refusals: 0, or Infinity.
function difference(key, call, value) {
  let got;
  try {
    got = call();
  } catch (error) {
    if (!(error instanceof GnomonError)) throw error;
    return value === `!${error.message}` ? 0 : Infinity;
  }
  if (value.startsWith('!')) return Infinity;
  const wanted = numbersOf(key, value);
  if (got.length !== wanted.length) return Infinity;
  let most = 0;
  for (let i = 0; i < wanted.length; ++i)
    if (!Object.is(got[i], wanted[i])) most = Math.max(most, Math.abs(got[i] - wanted[i]));
  return Number.isNaN(most) ? Infinity : most;
}

function differences(isa) {
  const recorded = native(isa);
  const found = new Map();
  for (const [key, call] of ours()) {
    assert.ok(recorded.has(key), key);
    found.set(key, difference(key, call, recorded.get(key)));
    recorded.delete(key);
  }
  return {found, recorded};
}

// Whether two values of JSON are equal, and numbers up to a bound: by default, the last bit of a
// double.
function equal(a, b, bound = (x, y) => Math.abs(x - y) <= 2 ** -52 * Math.abs(y)) {
  if (typeof a === 'number' && typeof b === 'number') return bound(a, b);
  if (typeof a !== 'object' || a === null || b === null) return a === b;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length &&
    keys.every(key => equal(a[key], b[key], bound));
}

test('numbers equal those of the native library without FMA to the bit',
     {skip: process.arch !== 'x64'}, () => {
       const {found, recorded} = differences('sse4');
       assert.equal(recorded.get('isa'), '{"sse4"');
       assert.ok(found.size > 500);
       assert.deepEqual([...found].filter(([, difference]) => difference !== 0), []);
     });

// Their numbers are sums in double of functions of the C library, which differ in the last bit.
test('verdicts equal those of the native library without FMA',
     {skip: process.arch !== 'x64'}, () => {
       const checks = [...native('sse4')].filter(([key]) => key.endsWith('.check'));
       assert.ok(checks.length > 5);
       for (const [key, value] of checks) {
         const wanted = JSON.parse(value.slice(1));
         wanted.verdicts = Object.entries(wanted.verdicts).map(
           ([property, verdict]) => ({property, ...verdict}));
         const got = gnomon.check(key.replace('.check', ''),
                                  {width: WIDTH, heads: HEADS, trained: LENGTH, length: 128});
         assert.ok(equal(got, wanted, (x, y) => Math.abs(x - y) < 1e-14), key);
       }
     });

// FMA rounds once where WebAssembly rounds twice, and wider vectors add in another order. The
// bound of attention is that of gnomon/attention/attention.h, 2^-17 max |v|, with values up to 4;
// that of others a few units in the last place of numbers up to 4.
test('numbers equal those of the native library within the error bound', () => {
  for (const [key, difference] of differences('').found)
    assert.ok(difference <= (key.endsWith('.attention') ? 2 ** -15 : 2 ** -20),
              `${key}: ${difference}`);
});

// Frequencies have the same bits on every system (src/core/wide.h).
test('descriptions of models equal those of the native library', () => {
  const recorded = native('');
  let described = 0;
  for (const name of Object.keys(configs)) {
    const wanted = recorded.get(join('configs', name));
    try {
      const got = gnomon.model(configs[name].config).describe();
      assert.deepEqual(got, JSON.parse(wanted.slice(1)), name);
      ++described;
    } catch (error) {
      if (!(error instanceof GnomonError)) throw error;
      assert.equal(wanted, `!${error.message}`);
    }
  }
  assert.ok(described > 250, String(described));
  assert.ok(equal(gnomon.encodings(), JSON.parse(recorded.get('encodings').slice(1))));
});
