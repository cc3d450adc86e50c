// Sinusoidal tables of figures of chapter 2. Letters: T positions, C width.

/** The positions begin, begin + 1, ... */
export const range = (count, begin = 0) => Array.from({length: count}, (_, i) => begin + i);

/** The frequencies of the pairs of a width, in radians per position. */
export const pairFrequencies = (width, base = 10000) =>
  range(width / 2).map(pair => base ** (-2 * pair / width));

/** A table [T, C] from the frequency of each channel: odd channels are cosines, or all sines. */
export function tableOf(gnomon, positions, frequencies, kind = 'sines and cosines') {
  const {sin, cos} = gnomon.cosSin(positions, frequencies), width = frequencies.length;
  return sin.map((value, i) => kind === 'sines' || i % width % 2 === 0 ? value : cos[i]);
}

/** Row t of a table [T, C]. */
export const rowOf = (table, t, width) => table.subarray(t * width, (t + 1) * width);

/** The inner product of two rows. */
export function dot(a, b) {
  let sum = 0;
  for (let i = 0; i < a.length; ++i) sum += a[i] * b[i];
  return sum;
}

/**
 * A matrix M [C, C] that minimises |A M - B|, and the largest |A M - B| of an entry, for A and B
 * [T, C] with T >= C. Householder reflections with column pivots; columns of A that depend on
 * others up to 1e-5, the rounding of float tables, get no part in M.
 */
export function leastSquares(a, b, width) {
  const rows = a.length / width, left = Float64Array.from(a), right = Float64Array.from(b);
  const at = (t, column) => t * width + column, order = range(width);
  const rest = (column, from) => {
    let sum = 0;
    for (let t = from; t < rows; ++t) sum += left[at(t, column)] ** 2;
    return Math.sqrt(sum);
  };
  const reflect = (matrix, column, v, from, size) => {
    let sum = 0;
    for (let t = from; t < rows; ++t) sum += v[t] * matrix[at(t, column)];
    for (let t = from; t < rows; ++t) matrix[at(t, column)] -= 2 * sum / size * v[t];
  };
  let rank = 0, first = 0;
  for (; rank < width; ++rank) {
    const norms = order.slice(rank).map(column => rest(column, rank));
    const norm = Math.max(...norms), best = rank + norms.indexOf(norm);
    if (rank === 0) first = norm;
    if (norm <= 1e-5 * first) break;
    [order[rank], order[best]] = [order[best], order[rank]];
    const pivot = order[rank], v = new Float64Array(rows);
    for (let t = rank; t < rows; ++t) v[t] = left[at(t, pivot)];
    v[rank] += v[rank] < 0 ? -norm : norm;
    const size = dot(v, v);
    for (const column of order.slice(rank)) reflect(left, column, v, rank, size);
    for (let column = 0; column < width; ++column) reflect(right, column, v, rank, size);
  }
  const matrix = new Float64Array(width * width);
  for (let r = rank - 1; r >= 0; --r)
    for (let column = 0; column < width; ++column) {
      let sum = right[at(r, column)];
      for (let i = r + 1; i < rank; ++i)
        sum -= left[at(r, order[i])] * matrix[at(order[i], column)];
      matrix[at(order[r], column)] = sum / left[at(r, order[r])];
    }
  let residual = 0;
  for (let t = 0; t < rows; ++t)
    for (let column = 0; column < width; ++column) {
      let sum = -b[at(t, column)];
      for (let i = 0; i < width; ++i) sum += a[at(t, i)] * matrix[at(i, column)];
      residual = Math.max(residual, Math.abs(sum));
    }
  return {matrix, residual};
}
