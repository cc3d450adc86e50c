// Gnomon in JavaScript. index.d.ts describes the interface, docs/wasm.md the use.
import {Cache, Encoding, Model, Plan, Terms, sizesOf} from './handles.js';
import {Constant, GnomonError, Memory, choice, divided, integer, refuse} from './memory.js';

export {GnomonError};

const PAIRINGS = {halves: 1, adjacent: 2};
const LAYOUTS = {'interleaved': 1, 'half-split': 2, 'tensor2tensor': 3};
const READS = {causal: 1, bidirectional: 2};

/** Instantiates the library. Without bytes, Node reads gnomon.wasm beside this module. */
export async function load(wasm) {
  let module = wasm;
  if (module === undefined) {
    const [{readFile}, {fileURLToPath}] =
      await Promise.all([import('node:fs/promises'), import('node:url')]);
    module = await readFile(fileURLToPath(new URL('gnomon.wasm', import.meta.url)));
  }
  if (!(module instanceof WebAssembly.Module)) module = await WebAssembly.compile(module);
  const system = {};
  for (const {module: from, name} of WebAssembly.Module.imports(module))
    (system[from] ??= {})[name] = systemCall(name);
  const instance = await WebAssembly.instantiate(module, system);
  instance.exports._initialize();
  return new Gnomon(new Memory(instance));
}

// The module has no files and no environment. The number is WASI's "function not supported".
function systemCall(name) {
  if (name === 'proc_exit')
    return () => { throw new GnomonError('the library has stopped', 4); };
  return () => 52;
}

class Gnomon {
  #memory;

  constructor(memory) {
    this.#memory = memory;
    this.version = memory.read(memory.calls.gnomon_version());
    this.isa = memory.read(memory.calls.gnomon_isa());
  }

  get memoryBytes() {
    return this.#memory.calls.memory.buffer.byteLength;
  }

  encodings() {
    const memory = this.#memory;
    return memory.scope(() => memory.json('gnomon_encodings'));
  }

  encoding(name, shape) {
    const memory = this.#memory;
    return memory.scope(() => {
      if (typeof name === 'object' && name !== null)
        return new Encoding(memory,
                            memory.make('gnomon_encoding_from_json',
                                        memory.text(JSON.stringify(name))));
      if (typeof name !== 'string') refuse('encoding', 'name must be a string', typeof name);
      if (!shape) refuse('encoding', 'shape must be {width, heads, length}', String(shape));
      const [width, heads, length] = ['width', 'heads', 'length'].map(
        key => BigInt(integer('encoding', key, shape[key], 1)));
      const reads = choice('encoding', 'reads', READS, shape.reads ?? 'causal');
      return new Encoding(memory, memory.make('gnomon_encoding_from_name', memory.text(name),
                                              width, heads, length, reads));
    });
  }

  model(config, options = {}) {
    const memory = this.#memory;
    const text = typeof config === 'string' ? config : JSON.stringify(config);
    if (text === undefined) refuse('model', 'config must be JSON', String(config));
    return memory.scope(() => {
      const json = memory.text(text);
      return new Model(memory, options.pairing === undefined
        ? memory.make('gnomon_model_from_config', json)
        : memory.make('gnomon_model_from_config_assuming', json,
                      choice('model', 'pairing', PAIRINGS, options.pairing)));
    });
  }

  plan(options = {}) {
    const memory = this.#memory;
    return memory.scope(
      () => new Plan(memory, memory.make('gnomon_layer_plan_create'), sizesOf(options, false)));
  }

  sinusoidal(positions, width, options = {}) {
    const memory = this.#memory;
    return memory.scope(() => {
      const out = memory.output([positions.length, integer('sinusoidal', 'width', width, 1)]);
      memory.call('gnomon_sinusoidal', memory.positions(positions),
                  choice('sinusoidal', 'layout', LAYOUTS, options.layout ?? 'interleaved'),
                  options.base ?? 10000, out.tensor);
      return memory.floatsOf(out);
    });
  }

  cosSin(positions, frequencies) {
    const memory = this.#memory;
    return memory.scope(() => withFrequencies(
      memory, {rotaryDim: 2 * frequencies.length, pairing: 'halves', frequencies}, of => {
        const shape = [positions.length, frequencies.length];
        const cos = memory.output(shape), sin = memory.output(shape);
        memory.call('gnomon_cos_sin', memory.positions(positions), of, cos.tensor, sin.tensor);
        return {cos: memory.floatsOf(cos), sin: memory.floatsOf(sin)};
      }));
  }

  rotate(x, positions, options) {
    const memory = this.#memory;
    const heads = integer('rotate', 'heads', options?.heads, 1);
    const headDim = divided('rotate', 'x', x.length, positions.length * heads, 'head dimensions');
    return memory.scope(() => withFrequencies(memory, options, of => {
      const copy = memory.inPlace('x', x, [positions.length, heads, headDim]);
      const table = memory.make('gnomon_rotary_table_create', of, memory.positions(positions));
      try {
        memory.call('gnomon_rotate', copy.tensor, 0, table, options.inverse ? 2 : 1);
      } finally {
        memory.calls.gnomon_rotary_table_destroy(table);
      }
      return memory.floatsOf(copy);
    }));
  }

  alibiSlopes(heads) {
    const memory = this.#memory;
    integer('alibi', 'heads', heads, 1);
    return memory.scope(() => {
      const out = memory.output([heads], 64);
      memory.call('gnomon_alibi_slopes', BigInt(heads), 0n, out.tensor);
      return memory.doublesOf(out);
    });
  }

  normal(count, seed) {
    const memory = this.#memory;
    return memory.scope(() => {
      const out = memory.output([integer('normal', 'count', count, 0)]);
      memory.call('gnomon_normal', BigInt(integer('normal', 'seed', seed, 0)), out.tensor);
      return memory.floatsOf(out);
    });
  }

  constant(values) {
    if (!(values instanceof Float32Array))
      refuse('constant', 'values must be a Float32Array', typeof values);
    return new Constant(this.#memory, values);
  }

  cache(sizes) {
    return new Cache(this.#memory, sizes);
  }

  linear(x, weight, bias, {inputs, outputs}) {
    const memory = this.#memory;
    integer('linear', 'inputs', inputs, 1);
    integer('linear', 'outputs', outputs, 1);
    const tokens = divided('linear', 'x', x.length, inputs, 'tokens');
    return memory.scope(() => {
      const out = memory.take(4 * tokens * outputs);
      memory.calls.gnomon_wasm_linear(
        memory.inputData('x', x, [tokens, inputs]),
        memory.inputData('weight', weight, [outputs, inputs]),
        bias ? memory.inputData('bias', bias, [outputs]) : 0, out, tokens, inputs, outputs);
      return memory.floatsOf({data: out, length: tokens * outputs});
    });
  }

  terms(arrays) {
    const memory = this.#memory;
    const terms = memory.scope(() => new Terms(memory, memory.make('gnomon_terms_create')));
    for (const [name, {values, shape}] of Object.entries(arrays)) terms.set(name, values, shape);
    return terms;
  }

  check(name, setting = {}) {
    const memory = this.#memory;
    const numbers = Object.entries({width: 128, heads: 4, trained: 128, length: 512}).map(
      ([key, usual]) => BigInt(integer('check', key, setting[key] ?? usual, 1)));
    const found = memory.scope(
      () => memory.json('gnomon_encoding_check', memory.text(name), ...numbers));
    const verdicts = Object.entries(found.verdicts).map(
      ([property, verdict]) => ({property, ...verdict}));
    return {...found, verdicts};
  }
}

// Calls body(frequencies) with those of a rotation.
function withFrequencies(memory, options, body) {
  const bytes = 40, spec = memory.take(bytes);
  memory.i32[spec >>> 2] = bytes;
  memory.integerTo(spec + 8, integer('rotary', 'rotaryDim', options.rotaryDim, 1));
  memory.i32[(spec >>> 2) + 4] = choice('rotary', 'pairing', PAIRINGS, options.pairing);
  memory.f64[(spec >>> 3) + 3] = options.base ?? 0;
  memory.integerTo(spec + 32, integer('rotary', 'headOffset', options.headOffset ?? 0, 0));
  const of = options.frequencies
    ? memory.make('gnomon_frequencies_from', spec, memory.doubleInput(options.frequencies), 0, 1)
    : memory.make('gnomon_frequencies_create', spec);
  try {
    return body(of);
  } finally {
    memory.calls.gnomon_frequencies_destroy(of);
  }
}
