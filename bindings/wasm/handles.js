// Encodings, plans and models: owners of handles of the C API.
import {Constant, divided, integer, refuse} from './memory.js';

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
    if (!this.pointer) refuse('js', 'an object must not be freed', 'a freed one');
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
export function sizesOf(options, required = true) {
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

export class Encoding extends Handle {
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

  terms(x, options) {
    const {memory, handle} = this;
    const tokens = integer('terms', 'tokens', options?.tokens, 1);
    const parameters = options.parameters ?? this.randomParameters();
    return memory.scope(() => {
      const width = divided('terms', 'x', x.length, tokens, 'channels');
      const input = memory.inPlace('x', x, [1, tokens, width]);
      return new Terms(memory, memory.make('gnomon_encoding_terms', handle,
                                           parametersTo(memory, this.parameters, parameters),
                                           BigInt(parameters.length), input.tensor));
    });
  }
}

/** Terms of tokens, for the calls of a plan that depends on what the tokens hold. */
export class Terms extends Handle {
  constructor(memory, pointer) {
    super(memory, pointer, 'gnomon_terms_destroy');
  }

  set(name, values, shape) {
    const {memory, handle} = this;
    memory.scope(() => memory.call('gnomon_terms_set', handle, memory.text(name),
                                   memory.inPlace(name, values, shape).tensor));
  }
}

// The handle of the option `terms`, or 0.
function termsOf({terms}) {
  if (terms !== undefined && !(terms instanceof Terms))
    refuse('attention', 'terms must be those of encoding.terms()', typeof terms);
  return terms ? terms.handle : 0;
}

/** Keys and values of past tokens, [1, capacity, Hk, D] and [1, capacity, Hk, Dv]. */
export class Cache {
  #arrays;

  constructor(memory, {capacity, keyHeads, headDim, valueDim = headDim}) {
    const sizes = {capacity, keyHeads, headDim, valueDim};
    for (const [name, value] of Object.entries(sizes)) integer('cache', name, value, 1);
    Object.assign(this, sizes);
    const numbers = dim => new Float32Array(capacity * keyHeads * dim);
    this.#arrays = [new Constant(memory, numbers(headDim)), new Constant(memory, numbers(valueDim))];
    this.length = 0;
  }

  // Appends tensors of `count` tokens. Returns tensors of all tokens.
  append(memory, count, k, v) {
    if (this.#arrays.some(array => !array.pointer))
      refuse('js', 'an object must not be freed', 'a freed one');
    const all = this.length + count;
    if (all > this.capacity)
      refuse('cache', `tokens must be at most the capacity, ${this.capacity}`, String(all));
    const tensors = [k, v].map(({data, length}, i) => {
      const {pointer} = this.#arrays[i], row = 4 * length / count;
      memory.u8.copyWithin(pointer + row * this.length, data, data + 4 * length);
      return memory.describe(pointer, 2, 32,
                             [1, all, this.keyHeads, i ? this.valueDim : this.headDim]);
    });
    this.length = all;
    return tensors;
  }

  clear() { this.length = 0; }
  free() { for (const array of this.#arrays) array.free(); }
}

export class Plan extends Handle {
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
      memory.call('gnomon_prepare_with', copies.q.tensor, copies.k.tensor, of, handle, termsOf(options));
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
      const input = memory.struct([of.q.tensor, of.k.tensor, of.v.tensor, 0, 0, 0, termsOf(options)]);
      memory.call('gnomon_attention', input, handle, out.tensor, 0);
      return memory.floatsOf(out);
    });
  }

  decode(q, k, v, cache, {heads}) {
    const {memory, handle} = this;
    if (!(cache instanceof Cache)) refuse('decode', 'cache must be one of cache()', typeof cache);
    if (!this.#sizes.ofModel) refuse('decode', 'plan must be that of a layer of a model', 'another');
    integer('decode', 'heads', heads, 1);
    const {queries, keys} = this.#sizes, {keyHeads, headDim, valueDim} = cache;
    if (keys - queries !== cache.length)
      refuse('decode', `the plan must have ${cache.length} keys before the queries`,
             String(keys - queries));
    return memory.scope(() => {
      const of = {
        q: memory.inPlace('q', q, [1, queries, heads, headDim]),
        k: memory.inPlace('k', k, [1, queries, keyHeads, headDim]),
        v: memory.inPlace('v', v, [1, queries, keyHeads, valueDim]),
      };
      memory.call('gnomon_prepare', of.q.tensor, of.k.tensor, of.v.tensor, handle);
      const out = memory.output([1, queries, heads, valueDim]);
      const all = cache.append(memory, queries, of.k, of.v);
      memory.call('gnomon_attention', memory.struct([of.q.tensor, ...all, 0, 0, 0, 0]), handle,
                  out.tensor, 0);
      return memory.floatsOf(out);
    });
  }

  #matrix(q, k, options, scores) {
    const {memory, handle} = this;
    return memory.scope(() => {
      const {queries, keys, heads, ...of} = this.#prepared(q, k, null, options);
      const out = memory.output([1, heads, queries, keys]);
      const input = memory.struct([of.q.tensor, of.k.tensor, 0, 0, 0, 0, termsOf(options)]);
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

export class Model extends Handle {
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
      const bytes = 40, tokens = memory.take(bytes);
      memory.i32.set([bytes, memory.positions(ids, [1, count]), 0, 0, 0, 0], tokens >>> 2);
      memory.integerTo(tokens + 24, keys - count);
      memory.integerTo(tokens + 32, length);
      const plan = memory.make('gnomon_model_lower_layer', this.handle, memory.text(part),
                               BigInt(layer), tokens, parametersTo(memory, wanted, values),
                               BigInt(wanted.length));
      return plan;
    });
    const ofKeys = queries < keys ? new Plan(memory, lower(keys), {}) : 0;
    return new Plan(memory, lower(queries), {queries, keys, ofModel: true}, ofKeys);
  }
}
