// The functions of the figures of chapters 3 and 4 on rows of tables.
//   node --test tests/site/rows.test.mjs                  requires `make wasm`
import assert from 'node:assert/strict';
import {readFileSync} from 'node:fs';
import {test} from 'node:test';
import {trainHead} from '../../apps/site/position_head.js';
import {cosines, meanCosines, multiply, nearestRows, percent, resizeRows}
  from '../../apps/site/rows.js';
import {load} from '../../build/wasm/index.js';

const near = (values, expected) => {
  assert.equal(values.length, expected.length);
  values.forEach((value, i) => assert.ok(Math.abs(value - expected[i]) < 1e-12,
                                         `${i}: ${value} is not ${expected[i]}`));
};
const read = name => JSON.parse(
    readFileSync(new URL(`../../docs/book/data/${name}.json`, import.meta.url)));

test('cosines of rows', () => {
  const rows = [3, 4, -4, 3, 8, 6];                 // of norm 5, 5, 10
  near(cosines(rows, 3, 2), [1, 0, 0.96, 0, 1, -0.28, 0.96, -0.28, 1]);
  near(meanCosines(rows, 3, 2), [1, -0.14, 0.96]);
  near(meanCosines(rows, 3, 2, 1), [1, -0.14]);
  assert.deepEqual([...nearestRows(cosines(rows, 3, 2), 3)], [2, 0, 0]);
});

test('resizeRows reads between the centres of cells, as gnomon resize --preset linear', () => {
  near(resizeRows([0, 10, 20, 30], 4, 1, 8), [0, 2.5, 7.5, 12.5, 17.5, 22.5, 27.5, 30]);
  near(resizeRows([0, 10, 20, 30], 4, 1, 6).slice(1, 3), [5, 35 / 3]);
  near(resizeRows([0, 1, 2, 3], 2, 2, 2), [0, 1, 2, 3]);
});

test('products and shares', () => {
  assert.deepEqual([...multiply([1, 2, 3, 4], [1, 0, 2, 0, 1, 3], 2, 2, 3)], [1, 2, 8, 3, 4, 18]);
  assert.equal(percent(0.99999), '100.0');
  assert.equal(percent(0.99999, 'floor'), '99.9');
});

test('the head of the page descends along its gradient, and only in rows of the text', async () => {
  const gnomon = await load();
  const loss = steps => {
    const {weights} = trainHead(gnomon, {rows: 6, width: 8, longest: 5, steps});
    let sum = 0;
    for (let i = 1; i < 5; ++i) sum -= Math.log(weights[i * 6 + i - 1]) / 4;
    return sum;
  };
  const losses = [0, 3, 6, 9].map(loss);
  for (let i = 1; i < losses.length; ++i) assert.ok(losses[i] < losses[i - 1], losses.join(' '));
  assert.ok(losses[3] < 0.05);
  const {initial, table} = trainHead(gnomon, {rows: 6, width: 8, longest: 5, steps: 10});
  assert.deepEqual([...table.subarray(40)], [...initial.subarray(40)]);
  assert.notDeepEqual([...table.subarray(32, 40)], [...initial.subarray(32, 40)]);
});

test('the tables of the book are whole', () => {
  const text = read('learned-table'), vit = read('vit-positions');
  for (const {values, rows, columns} of [text, vit, {...text, values: text.initial}]) {
    assert.equal(values.length, rows * columns);
    assert.ok(values.every(Number.isFinite));
  }
  assert.equal(vit.rows, vit.grid[0] * vit.grid[1]);
});
