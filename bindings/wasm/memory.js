// The memory of the module, and calls of the C API: arrays in, errors out.

/** status: 1 an argument breaks a rule, 2 a file has the wrong format, 3 memory, 4 internal. */
export class GnomonError extends Error {
  constructor(message, status = 1) {
    super(message);
    this.name = 'GnomonError';
    this.status = status;
  }
}

export function refuse(operation, rule, got) {
  throw new GnomonError(`[${operation}] ${rule}, got ${got}`);
}

/** Throws unless value is an integer of at least `least`. */
export function integer(operation, name, value, least) {
  if (!Number.isSafeInteger(value) || value < least)
    refuse(operation, `${name} must be an integer of at least ${least}`, String(value));
  return value;
}

/** The value of a name in choices; throws if there is none. */
export function choice(operation, name, choices, value) {
  const chosen = Object.hasOwn(choices, value) ? choices[value] : undefined;
  if (!chosen)
    refuse(operation, `${name} must be ${Object.keys(choices).join(' or ')}`, String(value));
  return chosen;
}

/** The quotient of a number of elements, which must be whole. */
export function divided(operation, name, length, unit, what) {
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
export class Constant {
  constructor(memory, values) {
    this.memory = memory;
    this.length = values.length;
    this.pointer = memory.keep(4 * values.length);
    memory.f32.set(values, this.pointer >>> 2);
    memory.owns(this, () => memory.calls.free, this.pointer);
  }

  free() {
    if (!this.pointer) return;
    this.memory.disowns(this);
    this.memory.calls.free(this.pointer);
    this.pointer = 0;
  }
}

export class Memory {
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
    const bytes = this.u8, begin = pointer >>> 0;
    return decoder.decode(bytes.subarray(begin, bytes.indexOf(0, begin)));
  }

  // A tensor of the C API: data, device, ndim, dtype, shape, strides, byte_offset.
  describe(data, code, bits, shape) {
    const pointer = this.take(TENSOR_BYTES + 8 * shape.length);
    const words = this.i32, at = pointer >>> 2;
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
    const words = this.i32, at = pointer >>> 2;
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
      refuse('js', `${name} must be a Float32Array or a constant`, kindOf(values));
    if (constant && !values.pointer) refuse('js', `${name} must not be freed`, 'a freed constant');
    if (values.length !== count)
      refuse('js', `${name} must have ${count} elements, [${shape.join(', ')}]`,
             String(values.length));
    if (constant) return values.pointer;
    const data = this.take(4 * count);
    this.f32.set(values, data >>> 2);
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
    this.f32.fill(0, out.data >>> 2, (out.data >>> 2) + out.length);
    return out;
  }

  floatsOf({data, length}) {
    return this.f32.slice(data >>> 2, (data >>> 2) + length);
  }

  doublesOf({data, length}) {
    return this.f64.slice(data >>> 3, (data >>> 3) + length);
  }

  doubleInput(values) {
    const data = this.take(8 * values.length);
    this.f64.set(values, data >>> 3);
    return this.describe(data, FLOAT, 64, [values.length]);
  }

  /** An int64 tensor of positions. */
  positions(values, shape = [values.length]) {
    const data = this.take(8 * values.length);
    for (let i = 0; i < values.length; ++i) {
      if (!Number.isSafeInteger(values[i]))
        refuse('js', 'positions must be integers', String(values[i]));
      this.integerTo(data + 8 * i, values[i]);
    }
    return this.describe(data, INTEGER, 64, shape);
  }

  /** An array of pointers. */
  list(pointers) {
    const at = this.take(4 * pointers.length);
    this.i32.set(pointers, at >>> 2);
    return at;
  }

  /** A struct of gnomon.h: its size, then pointers. */
  struct(pointers) {
    return this.list([4 * (pointers.length + 1), ...pointers]);
  }

  /** Calls a function that returns a status; throws its message. */
  call(name, ...values) {
    const status = this.calls[name](...values);
    if (status !== 0) throw new GnomonError(this.read(this.calls.gnomon_error_message()), status);
  }

  /** Calls a function whose last argument is a pointer to a result; returns that. */
  make(name, ...values) {
    const out = this.take(4);
    this.i32[out >>> 2] = 0;
    this.call(name, ...values, out);
    return this.i32[out >>> 2] >>> 0;
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
