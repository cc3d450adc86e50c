// Times of the package beside plain loops of JavaScript, with the copies of arrays:
//
//   node tests/wasm/time.mjs
import {performance} from 'node:perf_hooks';

import {gnomon} from './package.mjs';

// The least time of a call in milliseconds, after one that is not timed.
function least(runs, call) {
  let time = Infinity;
  call();
  for (let i = 0; i < runs; ++i) {
    const begin = performance.now();
    call();
    time = Math.min(time, performance.now() - begin);
  }
  return time;
}

const difference = (a, b) => a.reduce((most, x, i) => Math.max(most, Math.abs(x - b[i])), 0);

// Rotates a copy of x [T, H, D] by halves, with tables of cos and sin [T, D / 2].
function rotatedPlainly(x, cos, sin, heads, dim) {
  const out = new Float32Array(x), half = dim / 2;
  for (let row = 0; row < x.length / dim; ++row) {
    const at = row * dim, angle = Math.floor(row / heads) * half;
    for (let i = 0; i < half; ++i) {
      const a = x[at + i], b = x[at + half + i], c = cos[angle + i], s = sin[angle + i];
      out[at + i] = a * c - b * s;
      out[at + half + i] = a * s + b * c;
    }
  }
  return out;
}

// Causal attention of q, k and v [T, H, D].
function attendedPlainly(q, k, v, heads, dim) {
  const tokens = q.length / heads / dim, scale = 1 / Math.sqrt(dim);
  const out = new Float32Array(q.length), weights = new Float64Array(tokens);
  for (let h = 0; h < heads; ++h)
    for (let t = 0; t < tokens; ++t) {
      const to = (t * heads + h) * dim;
      let most = -Infinity, sum = 0;
      for (let s = 0; s <= t; ++s) {
        const from = (s * heads + h) * dim;
        let dot = 0;
        for (let d = 0; d < dim; ++d) dot += q[to + d] * k[from + d];
        weights[s] = dot * scale;
        most = Math.max(most, weights[s]);
      }
      for (let s = 0; s <= t; ++s) sum += weights[s] = Math.exp(weights[s] - most);
      for (let s = 0; s <= t; ++s) {
        const from = (s * heads + h) * dim, weight = weights[s] / sum;
        for (let d = 0; d < dim; ++d) out[to + d] += weight * v[from + d];
      }
    }
  return out;
}

function rotation(tokens, heads, dim) {
  const x = gnomon.normal(tokens * heads * dim, 1);
  const positions = Array.from({length: tokens}, (_, t) => t);
  const frequencies = gnomon.encoding({kind: 'rotary', rotary_dim: dim, pairing: 'halves',
                                       base: 500000}).frequencies();
  const {cos, sin} = gnomon.cosSin(positions, frequencies);
  const ours = () => gnomon.rotate(x, positions, {heads, rotaryDim: dim, pairing: 'halves',
                                                  frequencies});
  const plain = () => rotatedPlainly(x, cos, sin, heads, dim);
  console.log(`rotation [${tokens}, ${heads}, ${dim}], ms: gnomon ${least(10, ours).toFixed(1)}, ` +
              `loop ${least(10, plain).toFixed(1)}, difference ` +
              difference(ours(), plain()).toExponential(1));
}

function attention(tokens, heads, dim) {
  const [q, k, v] = [1, 2, 3].map(seed => gnomon.normal(tokens * heads * dim, seed));
  const plan = gnomon.plan({keys: tokens});
  const ours = () => plan.attention(q, k, v, {heads});
  const plain = () => attendedPlainly(q, k, v, heads, dim);
  console.log(`causal attention [${tokens}, ${heads}, ${dim}], ms: gnomon ` +
              `${least(20, ours).toFixed(2)}, loop ${least(5, plain).toFixed(1)}, difference ` +
              difference(ours(), plain()).toExponential(1));
}

// What a call costs without its work: one head of 2 elements.
function call() {
  const x = new Float32Array(2), count = 10000;
  const time = least(10, () => {
    for (let i = 0; i < count; ++i) gnomon.rotate(x, [3], {heads: 1, rotaryDim: 2, pairing: 'halves'});
  });
  console.log(`rotation of one head of 2 with its table, us: ${(time / count * 1e3).toFixed(2)}`);
}

console.log(`gnomon ${gnomon.version}, Node ${process.version}`);
rotation(4096, 32, 128);
attention(256, 8, 64);
call();
