// A head that is trained in the page: it gets nothing but rows of a learned table, and must attend
// to the token before its own.

/**
 * Trains a table [rows, width] and a matrix A [width, width] by Adam on one text of `longest`
 * tokens. The score of query i and key j is (row_i A) . row_j / sqrt(width). The loss is the mean
 * of -log of the weight of key i - 1. Returns the table before and after training, and the weights
 * [rows, rows] of a text that uses every row.
 */
export function trainHead(gnomon, {rows = 12, width = 8, longest = rows, steps}) {
  const count = rows * width, size = count + width * width;
  // The table and then A; both start at small normal values.
  const parameters = Float64Array.from(gnomon.normal(size, 1), value => 0.1 * value);
  const initial = parameters.slice(0, count);
  const first = new Float64Array(size), second = new Float64Array(size);
  const encoding = gnomon.encoding('none', {width, heads: 1, length: rows});
  const plan = encoding.plan({keys: longest});
  for (let step = 1; step <= steps; ++step) {
    const gradient = gradientOf(plan, parameters, longest, width, count);
    const bias1 = 1 - 0.9 ** step, bias2 = 1 - 0.99 ** step;
    for (let p = 0; p < size; ++p) {
      first[p] = 0.9 * first[p] + 0.1 * gradient[p];
      second[p] = 0.99 * second[p] + 0.01 * gradient[p] ** 2;
      parameters[p] -= 0.1 * first[p] / bias1 / (Math.sqrt(second[p] / bias2) + 1e-8);
    }
  }
  const whole = encoding.plan({keys: rows});
  const {queries, keys} = projected(parameters, rows, width, count);
  const weights = whole.weights(queries, keys, {heads: 1});
  plan.free();
  whole.free();
  encoding.free();
  return {initial, table: parameters.slice(0, count), weights};
}

function projected(parameters, tokens, width, count) {
  const queries = new Float32Array(tokens * width);
  const keys = Float32Array.from(parameters.subarray(0, tokens * width));
  for (let i = 0; i < tokens; ++i)
    for (let d = 0; d < width; ++d) {
      let sum = 0;
      for (let c = 0; c < width; ++c)
        sum += parameters[i * width + c] * parameters[count + c * width + d];
      queries[i * width + d] = sum;
    }
  return {queries, keys};
}

function gradientOf(plan, parameters, tokens, width, count) {
  const {queries, keys} = projected(parameters, tokens, width, count);
  const weights = plan.weights(queries, keys, {heads: 1});
  const gradient = new Float64Array(parameters.length), ofQuery = new Float64Array(width);
  for (let i = 1; i < tokens; ++i) {
    ofQuery.fill(0);
    for (let j = 0; j <= i; ++j) {
      const target = j === i - 1 ? 1 : 0;
      const ofScore = (weights[i * tokens + j] - target) / Math.sqrt(width) / (tokens - 1);
      for (let c = 0; c < width; ++c) {
        ofQuery[c] += ofScore * keys[j * width + c];
        gradient[j * width + c] += ofScore * queries[i * width + c];
      }
    }
    for (let c = 0; c < width; ++c)
      for (let d = 0; d < width; ++d) {
        gradient[i * width + c] += ofQuery[d] * parameters[count + c * width + d];
        gradient[count + c * width + d] += parameters[i * width + c] * ofQuery[d];
      }
  }
  return gradient;
}
