// The figures in Node: their contract (apps/site/README.md), their claims, and their sentences.
import assert from 'node:assert/strict';
import {readdirSync, readFileSync} from 'node:fs';
import {test} from 'node:test';

import {load} from '../../build/wasm/index.js';
import {readData} from '../../apps/site/numbers.mjs';
import {initialState} from '../../apps/site/web/controls.js';

const root = new URL('../../', import.meta.url);
const folder = new URL('apps/site/figures/', root);
const gnomon = await load();
const data = readData(new URL('.', root).pathname);
const languages = ['en', 'zh'];
const names = readdirSync(folder).filter(name => name.endsWith('.js'))
    .map(name => name.slice(0, -3));
const figures = await Promise.all(
    names.map(async name => (await import(new URL(`${name}.js`, folder).href)).default));

// A view that takes every call, and checks what it gets.
function plainView(calls) {
  const numbers = values => Array.from(values, Number);
  const pen = new Proxy({}, {get: (_, name) => (...rest) => {
    if (name === 'handle') assert.equal(typeof rest[2].move, 'function');
    calls.push([`pen.${name}`, rest]);
  }});
  return {
    heatmap(id, {values, rows, columns}) {
      assert.equal(values.length, rows * columns, `${id}: ${rows} x ${columns}`);
      calls.push(['heatmap', id]);
    },
    lines(id, {series}) {
      for (const {name, x, y} of series) {
        assert.equal(x.length, y.length, `${id}: ${name}`);
        assert.ok(numbers(x).every(Number.isFinite), `${id}: ${name} has an x that is no number`);
      }
      calls.push(['lines', id]);
    },
    bars(id, {bars}) {
      for (const {name, value} of bars) assert.ok(Number.isFinite(value), `${id}: ${name}`);
      calls.push(['bars', id]);
    },
    words(id, {words}) {
      assert.ok(Array.isArray(words), id);
      calls.push(['words', id]);
    },
    table(id, {head, rows}) {
      for (const row of rows) assert.equal(row.length, head.length, id);
      calls.push(['table', id]);
    },
    drawing(id, {width, height}, draw) {
      assert.ok(width > 0 && height > 0, id);
      draw(pen);
      calls.push(['drawing', id]);
    },
  };
}

// Settings of one control each, beside the start.
function* settings(figure, language) {
  const start = initialState(figure.controls, language);
  yield start;
  if (figure.breaks) yield {...start, ...figure.breaks};
  for (const control of figure.controls) {
    const {name, type} = control;
    if (type === 'range')
      for (const value of [control.min, control.max]) yield {...start, [name]: value};
    if (type === 'toggle') yield {...start, [name]: !start[name]};
    if (type === 'choice') for (const {value} of control.options) yield {...start, [name]: value};
    if (type === 'text')
      for (const value of language === 'zh' ? ['', '一', '二 一 二 一'] : ['', 'a', 'b a b a c'])
        yield {...start, [name]: value};
  }
}

const holes = /NaN|undefined|null|Infinity|\[object/;

function saysSomething(figure, result, state, language) {
  const said = figure.say(result, state, language);
  assert.ok(typeof said === 'string' && said.length > 5, `${language}: '${said}'`);
  assert.doesNotMatch(said, holes, `${language}: ${JSON.stringify(state)}`);
  if (language === 'zh') assert.match(said, /[\u4e00-\u9fff]/);
  else assert.doesNotMatch(said, /[\u4e00-\u9fff]/u);
}

test('each file has a figure of its name', () => {
  assert.deepEqual(figures.map(figure => figure?.name), names);
});

test('each figure of the book exists, and each figure is used', () => {
  const book = new URL('docs/book/', root);
  const used = new Set();
  for (const page of readdirSync(book).filter(name => name.endsWith('.md')))
    for (const match of readFileSync(new URL(page, book), 'utf8')
        .matchAll(/^!\[[^\]]*\]\(figures\/([a-z0-9-]+?)(?:\.zh)?\.png\)/gm)) used.add(match[1]);
  assert.deepEqual([...used].sort(), [...names].sort());
});

for (const figure of figures) {
  test(`${figure.name}: labels`, () => {
    for (const control of figure.controls) {
      for (const language of languages) {
        assert.ok(control.label?.[language], `${control.name} has no label (${language})`);
        for (const option of control.options ?? [])
          assert.ok(option.label?.[language] ?? (typeof option.label === 'string'),
                    `${control.name}: ${option.value} (${language})`);
      }
      if (control.type === 'range')
        assert.ok(control.min <= control.value && control.value <= control.max, control.name);
      if (control.type === 'choice')
        assert.ok(control.options.some(option => option.value === control.value), control.name);
    }
    for (const name of Object.keys(figure.breaks ?? {}))
      assert.ok(figure.controls.some(control => control.name === name), `breaks ${name}`);
    for (const name of figure.data ?? []) assert.ok(data[name], `docs/book/data/${name}.json`);
  });

  test(`${figure.name}: its claim holds at the start, and not if it is broken`, () => {
    for (const language of languages) {
      const start = initialState(figure.controls, language);
      assert.equal(figure.claim(figure.compute(gnomon, start, data), start), true, language);
      assert.ok(figure.breaks, 'the figure says how its claim is broken');
      const broken = {...start, ...figure.breaks};
      assert.equal(figure.claim(figure.compute(gnomon, broken, data), broken), false, language);
    }
  });

  test(`${figure.name}: computes plain data, and draws and says it`, () => {
    for (const language of languages) {
      for (const state of settings(figure, language)) {
        let result;
        try {
          result = figure.compute(gnomon, state, data);
        } catch (error) {
          // A reader may enter anything; the message of the library is shown.
          assert.ok(error.message.length > 10, JSON.stringify(state));
          continue;
        }
        structuredClone(result);
        assert.equal(typeof figure.claim(result, state), 'boolean');
        saysSomething(figure, result, state, language);
        const calls = [];
        figure.draw(plainView(calls), result, state, language);
        // Without words there may be nothing to draw.
        const few = figure.controls.some(
            one => one.type === 'text' && state[one.name].split(' ').length < 2);
        assert.ok(calls.length > 0 || few, 'draws nothing');
      }
    }
  });
}
