// Numbers in prose: the pages have the computed values, and the tool finds those that do not.
import assert from 'node:assert/strict';
import {execFileSync} from 'node:child_process';
import {test} from 'node:test';
import {fileURLToPath} from 'node:url';

import {compare, compute, markers, pages, rewritten} from '../../apps/site/numbers.mjs';

const root = fileURLToPath(new URL('../../', import.meta.url));
const program = process.env.GNOMON_PROGRAM ?? `${root}build/release/apps/cli/gnomon`;

test('the pages have the computed numbers', async () => {
  assert.deepEqual(compare(pages(root), await compute(root, program)), []);
});

test('every number of a figure is one number', async () => {
  for (const [key, value] of Object.entries(await compute(root, program)))
    assert.match(value, /^[-−+]?\d[\d.,/]*(e[-+−]?\d+)?%?$/, key);
});

test('another value, an unknown key and a marker without a number are found', () => {
  const text = 'It is 4.5<!-- a.b -->, 2e-7<!-- a.c -->\n积为 7<!-- a.d -->，x<!-- a.b -->\n';
  assert.deepEqual(markers(text).map(one => [one.line, one.key, one.shown]),
                   [[1, 'a.b', '4.5'], [1, 'a.c', '2e-7'], [2, 'a.d', '7'], [2, 'a.b', undefined]]);
  assert.deepEqual(compare([{name: 'docs/x.md', text}], {'a.b': '4.5', 'a.c': '3e-7'}), [
    'docs/x.md:1: a.c is 2e-7 on the page, computed 3e-7',
    'docs/x.md:2: no figure gives a.d',
    'docs/x.md:2: no number before the marker a.b',
  ]);
});

test('--write puts the values before the markers', () => {
  assert.equal(rewritten('1<!-- a.b --> and −2.5<!-- a.c -->', {'a.b': '10', 'a.c': '3'}),
               '10<!-- a.b --> and 3<!-- a.c -->');
});

test('the tool without a program says so', () => {
  assert.throws(() => execFileSync('node', [`${root}apps/site/numbers.mjs`], {stdio: 'pipe'}),
                /--program is required/);
});
