// Rows of position tables: their similarity and their interpolation, for the figures of chapters 3
// and 4.

/** The text of a language. */
export const say = (language, en, zh) => language === 'zh' ? zh : en;

// The rows [rows, columns] divided by their norms.
function unitRows(values, rows, columns) {
  const result = Float64Array.from(values);
  for (let i = 0; i < rows; ++i) {
    const row = result.subarray(i * columns, (i + 1) * columns);
    const norm = Math.sqrt(row.reduce((sum, value) => sum + value * value, 0));
    for (let c = 0; c < columns; ++c) row[c] /= norm;
  }
  return result;
}

function product(unit, columns, i, j) {
  let sum = 0;
  for (let c = 0; c < columns; ++c) sum += unit[i * columns + c] * unit[j * columns + c];
  return sum;
}

/** The cosines of all pairs of rows, [rows, rows]. */
export function cosines(values, rows, columns) {
  const unit = unitRows(values, rows, columns), result = new Float64Array(rows * rows);
  for (let i = 0; i < rows; ++i)
    for (let j = 0; j <= i; ++j)
      result[i * rows + j] = result[j * rows + i] = i === j ? 1 : product(unit, columns, i, j);
  return result;
}

/** The mean cosine of two rows at each distance 0 to `longest`. */
export function meanCosines(values, rows, columns, longest = rows - 1) {
  const unit = unitRows(values, rows, columns);
  return Float64Array.from({length: longest + 1}, (_, distance) => {
    let sum = 0;
    for (let i = distance; i < rows; ++i) sum += product(unit, columns, i, i - distance);
    return sum / (rows - distance);
  });
}

/** For each row, the other row of the highest value in the matrix. */
export function nearestRows(matrix, rows) {
  return Int32Array.from({length: rows}, (_, i) => {
    let best = i === 0 ? 1 : 0;
    for (let j = 0; j < rows; ++j)
      if (j !== i && matrix[i * rows + j] > matrix[i * rows + best]) best = j;
    return best;
  });
}

/**
 * Resizes a table to `to` rows by linear interpolation between centres of cells, as
 * `gnomon resize --preset linear` does.
 */
export function resizeRows(values, rows, columns, to) {
  const result = new Float64Array(to * columns);
  for (let i = 0; i < to; ++i) {
    const at = Math.min(Math.max((i + 0.5) * rows / to - 0.5, 0), rows - 1);
    const low = Math.min(Math.floor(at), rows - 1), high = Math.min(low + 1, rows - 1);
    for (let c = 0; c < columns; ++c)
      result[i * columns + c] = values[low * columns + c] +
          (at - low) * (values[high * columns + c] - values[low * columns + c]);
  }
  return result;
}

/** The product [rows, columns] of x [rows, inner] and a matrix [inner, columns]. */
export function multiply(x, matrix, rows, inner, columns) {
  const result = new Float32Array(rows * columns);
  for (let i = 0; i < rows; ++i)
    for (let k = 0; k < inner; ++k) {
      const factor = x[i * inner + k];
      for (let c = 0; c < columns; ++c) result[i * columns + c] += factor * matrix[k * columns + c];
    }
  return result;
}

/** A share as a percentage with a decimal, rounded by a function of Math. */
export const percent = (share, rounding = 'round') =>
  (Math[rounding](1000 * share) / 10).toFixed(1);

/** A number with `digits` decimals. */
export const fixed = (value, digits = 2) => value.toFixed(digits).replace('-', '−');
