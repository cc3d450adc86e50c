// Text of the page's program in two languages, and numbers as text.

const texts = {
  reset: {en: 'Reset', zh: '重置'},
  breakIt: {en: 'Break the claim', zh: '让结论不成立'},
  holds: {en: 'The claim holds.', zh: '结论成立。'},
  fails: {en: 'The claim does not hold here.', zh: '此时结论不成立。'},
  loading: {en: 'Loading the library ...', zh: '正在加载库……'},
  error: {en: 'Error', zh: '错误'},
  row: {en: 'row', zh: '行'},
  column: {en: 'column', zh: '列'},
  hidden: {en: 'hidden', zh: '被遮蔽'},
};

/** The text of a key in a language. */
export const text = (key, language) => texts[key][language];

/** A label {en, zh} or a string, in a language. */
export const localized = (label, language) =>
  typeof label === 'object' && label !== null ? label[language] ?? label.en : label;

/** A tick of an axis: 20000 as 20k, 3000000 as 3M. */
export function tick(value) {
  for (const [unit, size] of [['M', 1e6], ['k', 1e3]])
    if (Math.abs(value) >= 10 * size && Math.abs(value) < 1e9 && Number.isInteger(value / size * 10))
      return `${value / size}${unit}`.replace('-', '−');
  return number(value, Math.abs(value) < 0.1 ? 2 : 4);
}

/** A number with `digits` significant digits, without an exponent if it is of ordinary size. */
export function number(value, digits = 3) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? 'NaN' : value > 0 ? '∞' : '−∞';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size < 1e-3 || size >= 1e6) {
    const [mantissa, exponent] = value.toExponential(digits - 1).split('e');
    return `${String(Number(mantissa))}e${Number(exponent)}`.replace('-', '−');
  }
  const rounded = Number(value.toPrecision(digits));
  return String(size >= 10 ** digits ? Math.round(value) : rounded).replace('-', '−');
}
