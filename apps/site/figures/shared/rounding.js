// Roundings to 16 bits, to nearest with ties to even, for the figures of chapter 8.

/** Rounds to bfloat16: the first 16 bits of a float32. */
export function bfloat16(value) {
  const bits = new Uint32Array(1), number = new Float32Array(bits.buffer);
  number[0] = value;
  bits[0] = bits[0] + 0x7fff + (bits[0] >>> 16 & 1) & 0xffff0000;
  return number[0];
}

/** Rounds to float16: 11 bits, steps of 2^-24 below 2^-14; infinite from 65520 on. */
export function float16(value) {
  const size = Math.abs(value);
  if (size === 0 || !Number.isFinite(size)) return value;
  const step = 2 ** (Math.max(Math.floor(Math.log2(size)), -14) - 10);
  const low = Math.floor(size / step), rest = size / step - low;
  const up = rest > 0.5 || (rest === 0.5 && low % 2 === 1);
  const rounded = (low + (up ? 1 : 0)) * step;
  return Math.sign(value) * (rounded > 65504 ? Infinity : rounded);
}
