// The explorer's views of every encoding, as the worker computes them.
import assert from 'node:assert/strict';
import {before, test} from 'node:test';

import {load} from '../../build/wasm/index.js';
import {compute} from '../../apps/site/web/explorer_compute.js';

let gnomon, list;
before(async () => {
  gnomon = await load();
  list = compute(gnomon, {list: true});
});

const request = settings => ({shape: {width: 64, heads: 4, length: 64}, tokens: 48, causal: true,
                              text: 'the cat chases the dog', ...settings});

// Each number of a view, in lists and arrays at any depth.
function* numbersOf(value) {
  if (typeof value === 'number') yield value;
  else if (value && typeof value === 'object') for (const one of Object.values(value)) yield* numbersOf(one);
}

test('every encoding has views, and each is finite', () => {
  assert.ok(list.length >= 67);
  for (const info of list) {
    assert.ok(info.views.length >= 2, info.name);
    for (const view of info.views.filter(one => one !== 'check')) {
      const {data, spec} = compute(gnomon, request({name: info.name, view}));
      assert.ok(spec.kind, info.name);
      for (const number of numbersOf(data)) {
        assert.ok(Number.isFinite(number) || (view === 'attention' && Number.isNaN(number)),
                  `${info.name}: ${view} has ${number}`);
      }
    }
  }
});

test('attention changes with the encoding, and not without one', () => {
  const moved = name => {
    const {data} = compute(gnomon, request({name, view: 'attention'}));
    return Math.max(...data.values.map((value, i) => Math.abs(value - data.without[i])));
  };
  assert.equal(moved('none'), 0);
  for (const info of list.filter(one => one.name !== 'none'))
    assert.ok(moved(info.name) > 1e-4, `${info.name} changes no weight`);
});

test('weights of a query sum to 1, or less for parts of a stick', () => {
  for (const info of list) {
    const {data: {values, words}} = compute(gnomon, request({name: info.name, view: 'attention'}));
    const n = words.length;
    for (let row = 0; row < values.length / n; ++row) {
      const sum = values.slice(row * n, (row + 1) * n).reduce((total, value) => total + value, 0);
      if (info.places.includes('weights')) assert.ok(sum <= 1 + 1e-5, info.name);
      else assert.ok(Math.abs(sum - 1) < 1e-5, `${info.name}: ${sum}`);
    }
  }
});

test('a field changes the view, and a wrong one gives the error of the library', () => {
  const bias = spec => compute(gnomon, request({name: 'alibi', view: 'bias', spec})).data.values;
  assert.notDeepEqual(bias({max_bias: 4}), bias({}));
  assert.throws(() => compute(gnomon, request({name: 'rotary', view: 'decay', spec: {rotary_dim: 7}})),
                /rotary_dim|even/);
  assert.throws(() => compute(gnomon, request({name: 'rotary', view: 'attention', text: 'one'})),
                /at least 2 words/);
});

test('Chinese characters are words of their own', () => {
  const {data} = compute(gnomon, request({name: 'rotary', view: 'attention', text: '猫追狗 and 狗'}));
  assert.deepEqual(data.words, ['猫', '追', '狗', 'and', '狗']);
});

test('verdicts come from the check of the library', () => {
  const {data} = compute(gnomon, request({name: 'rotary', view: 'check'}));
  assert.equal(data.verdicts.length, 7);
  assert.equal(data.verdicts.find(one => one.property === 'distance').word, 'yes');
});

test('a config.json is described at a length', () => {
  const config = JSON.stringify({model_type: 'llama', hidden_size: 512, num_attention_heads: 8,
                                 num_hidden_layers: 2, max_position_embeddings: 2048});
  const description = compute(gnomon, {config, length: 8192});
  assert.equal(description.trained, 2048);
  assert.equal(description.groups[0].inv_freq.length, 32);
  assert.throws(() => compute(gnomon, {config: '{"model_type": 5}', length: 64}), /model_type/);
  assert.throws(() => compute(gnomon, {config: '{', length: 64}), /JSON|byte/);
});
