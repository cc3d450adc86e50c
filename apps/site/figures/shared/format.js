// Numbers as text in sentences and labels.

/** A share as a percentage with two significant digits: 0 %, 0.42 %, 3.1 %, 46 %. */
export function percent(share) {
  const value = 100 * share;
  return `${Math.abs(value) < 0.001 ? 0 : Number(value.toPrecision(2))} %`;
}

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
