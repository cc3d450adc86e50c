// Scalings of rotary frequencies for contexts longer than trained, in figures of chapter 6.

export const scalingOptions = {
  none: {en: 'none', zh: '不缩放'},
  linear: {en: 'position interpolation', zh: '位置插值（线性）'},
  ntk: {en: 'NTK-aware', zh: 'NTK 感知'},
  dynamic: {en: 'dynamic NTK', zh: '动态 NTK'},
  yarn: {en: 'YaRN', zh: 'YaRN'},
  longrope: {en: 'LongRoPE (Phi-3-mini)', zh: 'LongRoPE（Phi-3-mini）'},
  llama3: {en: 'Llama 3', zh: 'Llama 3'},
};

/** A choice control's options of some of the names above. */
export const choices = names => names.map(value => ({value, label: scalingOptions[value]}));

/** Factors of Phi-3-mini-128k-instruct (microsoft, MIT), from its config.json, for 48 pairs. */
export const phi3 = {
  long: [1.03, 1.05, 1.05, 1.08, 1.23, 1.23, 1.3, 1.45, 1.6, 1.65, 1.9, 2.86, 3.69, 5.42, 5.49,
         5.49, 9.09, 11.58, 15.66, 15.77, 15.79, 18.36, 21.99, 23.08, 30.01, 32.35, 32.59, 35.56,
         39.95, 53.84, 56.2, 57.95, 59.29, 59.77, 59.92, 61.19, 61.96, 62.5, 63.37, 63.48, 63.48,
         63.66, 63.85, 64.08, 64.76, 64.8, 64.81, 64.81],
  short: [1.05, 1.05, 1.05, 1.1, 1.1, 1.15, 1.2, 1.25, 1.3, 1.35, 1.5, 2, 2, 2, 2, 2, 2, 2, 2, 2,
          2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2.05, 2.05, 2.05, 2.1, 2.1, 2.1, 2.15, 2.15, 2.35,
          2.55, 2.6, 2.6, 2.75, 2.85, 2.85, 2.95],
};

/** The `scaling` of a spec that extends `trained` tokens by `factor`. */
export function scaling(name, factor, trained) {
  switch (name) {
    case 'linear':
    case 'ntk':
      return {type: name, factor};
    case 'dynamic':
      return {type: name, factor: 1, trained_length: trained};
    case 'yarn':
      return {type: name, factor, original_length: trained};
    case 'longrope':
      return {type: name, factor, original_length: trained, short_factors: phi3.short,
              long_factors: phi3.long};
    case 'llama3':
      return {type: name, factor, original_length: trained, low_freq_factor: 1,
              high_freq_factor: 4};
    default:
      return {type: 'none'};
  }
}

/** A rotary encoding of `rotaryDim` elements, trained on `trained` tokens, for `length` tokens. */
export function scaledRotary(gnomon, name, options) {
  const {rotaryDim, base = 10000, trained, length, factor = length / trained} = options;
  return gnomon.encoding({kind: 'rotary-scaled', rotary_dim: rotaryDim, pairing: 'halves', base,
                          scaling: scaling(name, factor, trained), length});
}
