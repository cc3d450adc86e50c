// Numbers as text in sentences and labels.

/** A share as a percentage with two significant digits, without the sign: 0, 0.42, 3.1, 46. */
export function hundredths(share) {
  const value = 100 * share;
  return Math.abs(value) < 0.001 ? '0' : String(Number(value.toPrecision(2)));
}

/** The same with the sign: 46 %. */
export const percent = share => `${hundredths(share)} %`;

/** A number with `digits` significant digits: 0.00012, 46.8, 54410, 3e-8. */
export function format(value, digits = 3) {
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size < 1e-4 || size >= 1e7) {
    const [mantissa, exponent] = value.toExponential(digits - 1).split('e');
    return `${Number(mantissa)}e${Number(exponent)}`;
  }
  return String(size >= 10 ** digits ? Math.round(value) : Number(value.toPrecision(digits)));
}
