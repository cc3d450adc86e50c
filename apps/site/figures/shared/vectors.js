// Vectors of figures with rotary encodings.

/** The same vector `count` times: [count, vector.length]. */
export function repeated(vector, count) {
  const all = new Float32Array(count * vector.length);
  for (let i = 0; i < count; ++i) all.set(vector, i * vector.length);
  return all;
}

/** The inner product of two vectors; `at` and `bt` are the starts of rows of longer arrays. */
export function dot(a, b, length = a.length, at = 0, bt = 0) {
  let sum = 0;
  for (let i = 0; i < length; ++i) sum += a[at + i] * b[bt + i];
  return sum;
}

/** The query for which `key` scores highest at the distance `back`: the key rotated back. */
export function lookingBack(gnomon, key, back, options) {
  return gnomon.rotate(Float32Array.from(key), [back],
                       {heads: 1, rotaryDim: key.length, inverse: true, ...options});
}

/** The index of the largest finite value. */
export function largest(values) {
  let best = -1;
  for (let i = 0; i < values.length; ++i)
    if (Number.isFinite(values[i]) && (best < 0 || values[i] > values[best])) best = i;
  return best;
}

/** 0, step, 2 step, ...: `count` numbers. */
export const steps = (count, step = 1) => Float64Array.from({length: count}, (_, i) => i * step);
