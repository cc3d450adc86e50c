// The memory of the module, and calls of the C API: arrays in, errors out.

/** status: 1 an argument breaks a rule, 2 a file has the wrong format, 3 memory, 4 internal. */
class GnomonError extends Error {
  constructor(message, status = 1) {
    super(message);
    this.name = 'GnomonError';
    this.status = status;
  }
}

function refuse(operation, rule, got) {
  throw new GnomonError(`[${operation}] ${rule}, got ${got}`);
}

/** Throws unless value is an integer of at least `least`. */
function integer(operation, name, value, least) {
  if (!Number.isSafeInteger(value) || value < least)
    refuse(operation, `${name} must be an integer of at least ${least}`, String(value));
  return value;
}

/** The value of a name in choices; throws if there is none. */
function choice(operation, name, choices, value) {
  const chosen = Object.hasOwn(choices, value) ? choices[value] : undefined;
  if (!chosen)
    refuse(operation, `${name} must be ${Object.keys(choices).join(' or ')}`, String(value));
  return chosen;
}

/** The quotient of a number of elements, which must be whole. */
function divided(operation, name, length, unit, what) {
  if (!(unit > 0) || length % unit !== 0)
    refuse(operation, `${name} must have a whole number of ${what}, ${unit} elements each`,
           String(length));
  return length / unit;
}

const FLOAT = 2, INTEGER = 0;
const TENSOR_BYTES = 40;

// An ES module of Node has TextEncoder, and so have pages and workers.
const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** An array that stays in the memory of the module, for weights of many calls. */
class Constant {
  constructor(memory, values) {
    this.memory = memory;
    this.length = values.length;
    this.pointer = memory.keep(4 * values.length);
    memory.f32.set(values, this.pointer >> 2);
    memory.owns(this, () => memory.calls.free, this.pointer);
  }

  free() {
    if (!this.pointer) return;
    this.memory.disowns(this);
    this.memory.calls.free(this.pointer);
    this.pointer = 0;
  }
}

class Memory {
  constructor(instance) {
    this.calls = instance.exports;
    this.buffer = null;
    this.temporary = [];
    this.registry = typeof FinalizationRegistry === 'undefined' ? null
      : new FinalizationRegistry(({destroy, pointer}) => destroy()(pointer));
  }

  // Views of the memory. It has another buffer after it has grown.
  refresh() {
    if (this.buffer === this.calls.memory.buffer) return;
    this.buffer = this.calls.memory.buffer;
    this.bytes = new Uint8Array(this.buffer);
    this.words = new Int32Array(this.buffer);
    this.floats = new Float32Array(this.buffer);
    this.doubles = new Float64Array(this.buffer);
  }

  get u8() { this.refresh(); return this.bytes; }
  get i32() { this.refresh(); return this.words; }
  get f32() { this.refresh(); return this.floats; }
  get f64() { this.refresh(); return this.doubles; }

  /** Frees the memory of a handle when the collector takes its owner. */
  owns(owner, destroy, pointer) {
    this.registry?.register(owner, {destroy, pointer}, owner);
  }

  disowns(owner) {
    this.registry?.unregister(owner);
  }

  keep(bytes) {
    const pointer = this.calls.malloc(Math.max(1, bytes));
    if (!pointer) throw new GnomonError('out of memory', 3);
    return pointer >>> 0;
  }

  /** Runs body; then frees all that `take` gave. */
  scope(body) {
    const mark = this.temporary.length;
    try {
      return body();
    } finally {
      while (this.temporary.length > mark) this.calls.free(this.temporary.pop());
    }
  }

  take(bytes) {
    const pointer = this.keep(bytes);
    this.temporary.push(pointer);
    return pointer;
  }

  text(value) {
    const bytes = encoder.encode(value);
    const pointer = this.take(bytes.length + 1);
    this.u8.set(bytes, pointer);
    this.u8[pointer + bytes.length] = 0;
    return pointer;
  }

  read(pointer) {
    const bytes = this.u8;
    let end = pointer;
    while (bytes[end]) ++end;
    return decoder.decode(bytes.subarray(pointer, end));
  }

  // A tensor of the C API: data, device, ndim, dtype, shape, strides, byte_offset.
  describe(data, code, bits, shape) {
    const pointer = this.take(TENSOR_BYTES + 8 * shape.length);
    const words = this.i32, at = pointer >> 2;
    words[at] = data;
    words[at + 1] = 1;  // the CPU
    words[at + 2] = 0;
    words[at + 3] = shape.length;
    words[at + 4] = code | bits << 8 | 1 << 16;
    words[at + 5] = pointer + TENSOR_BYTES;
    words[at + 6] = 0;  // contiguous
    words[at + 7] = 0;
    words[at + 8] = 0;
    words[at + 9] = 0;
    shape.forEach((extent, axis) => this.integerTo(pointer + TENSOR_BYTES + 8 * axis, extent));
    return pointer;
  }

  integerTo(pointer, value) {
    const words = this.i32, at = pointer >> 2;
    words[at] = value | 0;
    words[at + 1] = Math.floor(value / 0x100000000);
  }

  /** A float32 input: a copy, or the memory of a Constant. */
  input(name, values, shape) {
    return this.describe(this.inputData(name, values, shape), FLOAT, 32, shape);
  }

  inputData(name, values, shape) {
    const count = shape.reduce((a, b) => a * b, 1);
    const constant = values instanceof Constant;
    if (!constant && !(values instanceof Float32Array))
      refuse(name, 'must be a Float32Array or a constant', kindOf(values));
    if (constant && !values.pointer) refuse(name, 'must not be freed', 'a freed constant');
    if (values.length !== count)
      refuse(name, `must have ${count} elements, [${shape.join(', ')}]`, String(values.length));
    if (constant) return values.pointer;
    const data = this.take(4 * count);
    this.f32.set(values, data >> 2);
    return data;
  }

  /** A float32 argument that the call changes in place: always a copy. */
  inPlace(name, values, shape) {
    let data = this.inputData(name, values, shape);
    if (values instanceof Constant) {
      const copy = this.take(4 * values.length);
      this.u8.copyWithin(copy, data, data + 4 * values.length);
      data = copy;
    }
    return {data, tensor: this.describe(data, FLOAT, 32, shape), length: values.length};
  }

  output(shape, bits = 32) {
    const length = shape.reduce((a, b) => a * b, 1);
    if (length > 2 ** 28) throw new GnomonError('out of memory', 3);
    const data = this.take(bits / 8 * length);
    return {data, tensor: this.describe(data, FLOAT, bits, shape), length};
  }

  zeros(shape) {
    const out = this.output(shape);
    this.f32.fill(0, out.data >> 2, (out.data >> 2) + out.length);
    return out;
  }

  floatsOf({data, length}) {
    return this.f32.slice(data >> 2, (data >> 2) + length);
  }

  doublesOf({data, length}) {
    return this.f64.slice(data >> 3, (data >> 3) + length);
  }

  doubleInput(values) {
    const data = this.take(8 * values.length);
    this.f64.set(values, data >> 3);
    return this.describe(data, FLOAT, 64, [values.length]);
  }

  /** An int64 tensor of positions. */
  positions(values, shape = [values.length]) {
    const data = this.take(8 * values.length);
    for (let i = 0; i < values.length; ++i) {
      if (!Number.isSafeInteger(values[i]))
        refuse('positions', 'must be integers', String(values[i]));
      this.integerTo(data + 8 * i, values[i]);
    }
    return this.describe(data, INTEGER, 64, shape);
  }

  /** An array of pointers. */
  list(pointers) {
    const at = this.take(4 * pointers.length);
    this.i32.set(pointers, at >> 2);
    return at;
  }

  /** Calls a function that returns a status; throws its message. */
  call(name, ...values) {
    const status = this.calls[name](...values);
    if (status !== 0) throw new GnomonError(this.read(this.calls.gnomon_error_message()), status);
  }

  /** Calls a function whose last argument is a pointer to a result; returns that. */
  make(name, ...values) {
    const out = this.take(4);
    this.i32[out >> 2] = 0;
    this.call(name, ...values, out);
    return this.i32[out >> 2] >>> 0;
  }

  /** The same for a result that is JSON. */
  json(name, ...values) {
    const pointer = this.make(name, ...values);
    try {
      return JSON.parse(this.read(pointer));
    } finally {
      this.calls.gnomon_free(pointer);
    }
  }
}

function kindOf(value) {
  return value?.constructor?.name ?? String(value);
}
// Encodings, plans and models: owners of handles of the C API.

// What a handle of the C API and its owner have in common.
class Handle {
  constructor(memory, pointer, destroy) {
    this.memory = memory;
    this.pointer = pointer;
    this.destroy = destroy;
    memory.owns(this, () => memory.calls[destroy], pointer);
  }

  /** The pointer, for a call. */
  get handle() {
    if (!this.pointer) refuse('handle', 'must not be freed', 'a freed object');
    return this.pointer;
  }

  free() {
    if (!this.pointer) return;
    this.memory.disowns(this);
    this.memory.calls[this.destroy](this.pointer);
    this.pointer = 0;
  }
}

// The sizes and the mask of PlanOptions.
function sizesOf(options, required = true) {
  const {causal = true, left} = options;
  let {keys, queries = keys} = options;
  if (required || keys !== undefined) {
    integer('plan', 'keys', keys, 1);
    integer('plan', 'queries', queries, 1);
    if (queries > keys) refuse('plan', `queries must be at most keys, ${keys}`, String(queries));
  }
  if (left !== undefined) integer('plan', 'left', left, 0);
  return {keys, queries, mask: {reads: causal ? 1 : 2, left: left ?? -1}};
}

// An array of tensors of parameters; null for a tensor that is not given.
function parametersTo(memory, wanted, values) {
  if (values.length !== wanted.length)
    refuse('plan', `parameters must have ${wanted.length} matrices`, String(values.length));
  return memory.list(wanted.map(({name, rows, columns}, i) => values[i]
    ? memory.input(name, values[i], [rows, columns])
    : memory.describe(0, 2, 32, [rows, columns])));
}

class Encoding extends Handle {
  constructor(memory, pointer) {
    super(memory, pointer, 'gnomon_encoding_destroy');
    this.spec = memory.json('gnomon_encoding_to_json', pointer);
    this.kind = this.spec.kind;
    this.parameters = memory.json('gnomon_encoding_parameters', pointer);
  }

  randomParameters() {
    const {memory, handle} = this;
    return this.parameters.map(({rows, columns}, index) => memory.scope(() => {
      const out = memory.output([rows, columns]);
      memory.call('gnomon_encoding_random_parameter', handle, BigInt(index), out.tensor);
      return memory.floatsOf(out);
    }));
  }

  frequencies(length = 0) {
    const {memory, handle} = this;
    integer('frequencies', 'length', length, 0);
    return memory.scope(() => {
      const of = memory.make('gnomon_encoding_frequencies', handle, BigInt(length));
      try {
        const out = memory.output([Number(memory.calls.gnomon_frequencies_count(of))], 64);
        memory.call('gnomon_frequencies_get', of, out.tensor);
        return memory.doublesOf(out);
      } finally {
        memory.calls.gnomon_frequencies_destroy(of);
      }
    });
  }

  plan(options) {
    const {memory, handle} = this;
    const sizes = sizesOf(options ?? {});
    const parameters = options.parameters ?? this.randomParameters();
    return memory.scope(() => {
      const plan = memory.make('gnomon_encoding_lower', handle,
                               parametersTo(memory, this.parameters, parameters),
                               BigInt(parameters.length), BigInt(sizes.queries),
                               BigInt(sizes.keys));
      return new Plan(memory, plan, sizes);
    });
  }
}

class Plan extends Handle {
  #sizes;
  #ofKeys;  // the plan that prepares keys, if another one than this

  constructor(memory, pointer, sizes, ofKeys = 0) {
    super(memory, pointer, 'gnomon_layer_plan_destroy');
    this.#sizes = sizes;
    this.#ofKeys = ofKeys;
    if (sizes.mask) memory.call('gnomon_layer_plan_rotate_in_prepare', pointer);
    if (sizes.mask && sizes.keys !== undefined) this.#setMask(sizes.queries, sizes.keys);
  }

  #setMask(queries, keys) {
    const {reads, left} = this.#sizes.mask;
    this.memory.call('gnomon_layer_plan_set_mask', this.handle, reads, BigInt(keys - queries),
                     BigInt(left), -1n);
  }

  table(tokens, width) {
    const {memory, handle} = this;
    return memory.scope(() => {
      const shape = [1, integer('table', 'tokens', tokens, 1), integer('table', 'width', width, 1)];
      const x = memory.zeros(shape);
      memory.call('gnomon_add_position', x.tensor, handle);
      memory.call('gnomon_prepare_input', x.tensor, handle, 1n);  // DETR adds it in each layer
      return memory.floatsOf(x);
    });
  }

  bias(heads, queries, keys) {
    const {memory, handle} = this;
    return memory.scope(() => {
      const shape = [heads, queries, keys].map(
        (extent, i) => integer('bias', ['heads', 'queries', 'keys'][i], extent, 1));
      if (queries > keys) refuse('bias', `queries must be at most keys, ${keys}`, String(queries));
      const out = memory.zeros(shape);
      memory.call('gnomon_layer_plan_bias', handle, BigInt(keys - queries), out.tensor);
      return memory.floatsOf(out);
    });
  }

  // Prepared copies of q and k (and v) as tensors, and the shape of the call.
  #prepared(q, k, v, options) {
    const {memory, handle} = this;
    const heads = integer('attention', 'heads', options?.heads, 1);
    const keyHeads = integer('attention', 'keyHeads', options.keyHeads ?? heads, 1);
    const {queries, keys, headDim} = this.#shapeOf(q, k, heads, keyHeads, options);
    const copies = {
      q: memory.inPlace('q', q, [1, queries, heads, headDim]),
      k: memory.inPlace('k', k, [1, keys, keyHeads, headDim]),
    };
    let valueDim = headDim;
    if (v) {
      valueDim = divided('attention', 'v', v.length, keys * keyHeads, 'elements of heads');
      copies.v = memory.inPlace('v', v, [1, keys, keyHeads, valueDim]);
    }
    const of = copies.v?.tensor ?? 0;
    if (this.#ofKeys) {
      const none = memory.describe(0, 2, 32, [1, keys, heads, headDim]);
      memory.call('gnomon_prepare', copies.q.tensor, 0, 0, handle);
      memory.call('gnomon_prepare', none, copies.k.tensor, of, this.#ofKeys.handle);
    } else {
      memory.call('gnomon_prepare', copies.q.tensor, copies.k.tensor, of, handle);
    }
    return {...copies, heads, queries, keys, valueDim};
  }

  #shapeOf(q, k, heads, keyHeads, options) {
    let {queries, keys} = this.#sizes;
    let headDim = options.headDim;
    if (keys === undefined) {
      if (headDim === undefined)
        refuse('attention', 'a plan without keys requires the option headDim', 'none');
      queries = divided('attention', 'q', q.length, heads * headDim, 'tokens');
      keys = divided('attention', 'k', k.length, keyHeads * headDim, 'tokens');
      if (queries > keys)
        refuse('attention', `q must have at most the ${keys} tokens of k`, String(queries));
      this.#setMask(queries, keys);
    }
    headDim = divided('attention', 'q', q.length, queries * heads, 'elements of heads');
    return {queries, keys, headDim};
  }

  prepare(q, k, options) {
    const {memory} = this;
    return memory.scope(() => {
      const copies = this.#prepared(q, k, null, options);
      return {q: memory.floatsOf(copies.q), k: memory.floatsOf(copies.k)};
    });
  }

  attention(q, k, v, options) {
    const {memory, handle} = this;
    return memory.scope(() => {
      const {queries, heads, valueDim, ...of} = this.#prepared(q, k, v, options);
      const out = memory.output([1, queries, heads, valueDim]);
      const input = memory.list([of.q.tensor, of.k.tensor, of.v.tensor, 0, 0, 0]);
      memory.call('gnomon_attention', input, handle, out.tensor, 0);
      return memory.floatsOf(out);
    });
  }

  #matrix(q, k, options, scores) {
    const {memory, handle} = this;
    return memory.scope(() => {
      const {queries, keys, heads, ...of} = this.#prepared(q, k, null, options);
      const out = memory.output([1, heads, queries, keys]);
      const input = memory.list([of.q.tensor, of.k.tensor, 0, 0, 0, 0]);
      memory.call('gnomon_attention_weights', input, handle, scores ? 0 : out.tensor,
                  scores ? out.tensor : 0);
      return memory.floatsOf(out);
    });
  }

  weights(q, k, options) { return this.#matrix(q, k, options, false); }
  scores(q, k, options) { return this.#matrix(q, k, options, true); }

  free() {
    if (this.#ofKeys) this.#ofKeys.free();
    super.free();
  }
}

class Model extends Handle {
  constructor(memory, pointer) {
    super(memory, pointer, 'gnomon_model_destroy');
  }

  describe(length) {
    const {memory, handle} = this;
    return memory.scope(() => length === undefined
      ? memory.json('gnomon_model_to_json', handle)
      : memory.json('gnomon_model_to_json_at', handle,
                    BigInt(integer('describe', 'length', length, 1))));
  }

  layerParameters(layer, part = '') {
    const {memory, handle} = this;
    return memory.scope(() => memory.json('gnomon_model_layer_parameters', handle,
                                          memory.text(part),
                                          BigInt(integer('model', 'layer', layer, 0))));
  }

  plan(layer, options) {
    const {memory} = this;
    const {keys, queries} = sizesOf(options ?? {});
    const part = options.part ?? '';
    const wanted = this.layerParameters(layer, part);
    const values = options.parameters ?? wanted.map(() => null);
    const length = integer('plan', 'length', options.length ?? 0, 0);
    const lower = count => memory.scope(() => {
      const ids = Array.from({length: count}, (_, t) => keys - count + t);
      const tokens = memory.take(32);
      memory.i32.set([memory.positions(ids, [1, count]), 0, 0, 0], tokens >> 2);
      memory.integerTo(tokens + 16, keys - count);
      memory.integerTo(tokens + 24, length);
      const plan = memory.make('gnomon_model_lower_layer', this.handle, memory.text(part),
                               BigInt(layer), tokens, parametersTo(memory, wanted, values),
                               BigInt(wanted.length));
      return plan;
    });
    const ofKeys = queries < keys ? new Plan(memory, lower(keys), {}) : 0;
    return new Plan(memory, lower(queries), {queries, keys}, ofKeys);
  }
}
// Gnomon in JavaScript. index.d.ts describes the interface, docs/wasm.md the use.

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

  check(name, setting = {}) {
    const memory = this.#memory;
    if (!memory.calls.gnomon_encoding_check)
      throw new GnomonError('[check] this build has no gnomon_encoding_check', 4);
    const numbers = Object.entries({width: 128, heads: 4, trained: 128, length: 512}).map(
      ([key, usual]) => BigInt(integer('check', key, setting[key] ?? usual, 1)));
    return memory.scope(
      () => memory.json('gnomon_encoding_check', memory.text(name), ...numbers));
  }
}

// Calls body(frequencies) with those of a rotation.
function withFrequencies(memory, options, body) {
  const spec = memory.take(32);
  memory.integerTo(spec, integer('rotary', 'rotaryDim', options.rotaryDim, 1));
  memory.i32[(spec >> 2) + 2] = choice('rotary', 'pairing', PAIRINGS, options.pairing);
  memory.f64[(spec >> 3) + 2] = options.base ?? 0;
  memory.integerTo(spec + 24, integer('rotary', 'headOffset', options.headOffset ?? 0, 0));
  const of = options.frequencies
    ? memory.make('gnomon_frequencies_from', spec, memory.doubleInput(options.frequencies), 0, 1)
    : memory.make('gnomon_frequencies_create', spec);
  try {
    return body(of);
  } finally {
    memory.calls.gnomon_frequencies_destroy(of);
  }
}
