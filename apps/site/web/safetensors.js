// Reads a safetensors file: a header of JSON with the type, shape and place of each tensor, then
// the numbers (https://github.com/huggingface/safetensors#format). Every number of the header is
// checked before it is used, so a damaged file gives one error.

const largestHeader = 1 << 20;
const sizes = {F16: 2, F32: 4};

function fail(what) {
  throw new Error(`safetensors: ${what}`);
}

// The value of the 16 bits of an IEEE 754 half: 1 bit sign, 5 bits exponent, 10 bits mantissa.
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, mantissa = bits & 1023;
  if (exponent === 31) return mantissa ? NaN : sign * Infinity;
  return sign * (exponent ? 2 ** (exponent - 25) * (1024 + mantissa) : 2 ** -24 * mantissa);
}

const isSize = value => Number.isSafeInteger(value) && value >= 0;

function numbersOf(view, type, count, begin) {
  const values = new Float32Array(count);
  if (type === 'F16')
    for (let i = 0; i < count; ++i) values[i] = half(view.getUint16(begin + 2 * i, true));
  else
    for (let i = 0; i < count; ++i) values[i] = view.getFloat32(begin + 4 * i, true);
  return values;
}

function tensorOf(view, name, entry, dataBegin) {
  if (typeof entry !== 'object' || entry === null) fail(`${name} must be an object`);
  const {dtype, shape, data_offsets: offsets} = entry;
  if (!Object.hasOwn(sizes, dtype)) fail(`${name} must have the type F16 or F32`);
  if (!Array.isArray(shape) || shape.length > 8 || !shape.every(isSize))
    fail(`${name} must have a shape`);
  if (!Array.isArray(offsets) || offsets.length !== 2 || !offsets.every(isSize))
    fail(`${name} must have two data_offsets`);
  const [begin, end] = offsets, count = shape.reduce((product, n) => product * n, 1);
  if (end > view.byteLength - dataBegin) fail(`${name} ends after the file`);
  if (end - begin !== count * sizes[dtype]) fail(`${name} has data_offsets of another size`);
  return {shape, values: numbersOf(view, dtype, count, dataBegin + begin)};
}

/** The tensors {shape, values: Float32Array} by name, and the metadata, of an ArrayBuffer. */
export function readSafetensors(buffer) {
  const view = new DataView(buffer);
  if (view.byteLength < 8) fail('the file is shorter than 8 bytes');
  const length = view.getUint32(0, true);
  if (view.getUint32(4, true) || length > largestHeader || length > view.byteLength - 8)
    fail('the header ends after the file');
  let header;
  try {
    header = JSON.parse(new TextDecoder('utf-8', {fatal: true}).decode(
        new Uint8Array(buffer, 8, length)));
  } catch {
    fail('the header must be JSON');
  }
  if (typeof header !== 'object' || header === null || Array.isArray(header))
    fail('the header must be an object');
  const tensors = new Map(), metadata = new Map();
  for (const [name, entry] of Object.entries(header)) {
    if (name !== '__metadata__') {
      tensors.set(name, tensorOf(view, name, entry, 8 + length));
      continue;
    }
    if (typeof entry !== 'object' || entry === null) fail('__metadata__ must be an object');
    for (const [key, text] of Object.entries(entry)) {
      if (typeof text !== 'string') fail('__metadata__ must have texts');
      metadata.set(key, text);
    }
  }
  return {tensors, metadata};
}
