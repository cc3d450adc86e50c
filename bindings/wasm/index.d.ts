// Gnomon in JavaScript: the C API (include/gnomon.h) compiled to WebAssembly.
//
//   import {load} from '@gnomon/wasm';
//   const gnomon = await load(bytes);                       // or load() in Node
//   const rotary = gnomon.encoding('rotary', {width: 64, heads: 1, length: 128});
//   const plan = rotary.plan({keys: 128});
//   const weights = plan.weights(q, k, {heads: 1});         // [heads, queries, keys]
//
// Arrays are row-major; shapes are in brackets, outermost first. Letters: H heads, T queries,
// S keys, D head dimension, C width. A call that breaks a rule throws a GnomonError with the
// message of the library: "[rotary] dim must be even, got 7".

/** Instantiates the library. Without bytes, Node reads gnomon.wasm beside this module. */
export function load(wasm?: BufferSource | WebAssembly.Module): Promise<Gnomon>;

/** status: 1 an argument breaks a rule, 2 a file has the wrong format, 3 memory, 4 internal. */
export class GnomonError extends Error {
  readonly status: 1 | 2 | 3 | 4;
}

export type Reads = 'causal' | 'bidirectional';
export type Pairing = 'halves' | 'adjacent';

export interface Shape {
  width: number;        // C; the head dimension is width / heads
  heads: number;
  length: number;       // training length, in tokens
  reads?: Reads;        // default: causal
}

/** An array in the memory of the library; accepted in place of a Float32Array. */
export interface Constant {
  readonly length: number;
  free(): void;
}
export type Values = Float32Array | Constant;

/** What `gnomon list --json` prints of an encoding, and more. */
export interface EncodingInfo {
  name: string;         // as encoding() accepts it
  title: string;
  places: string[];     // "embeddings", "queries and keys", "scores", "keys and values", ...
  summary: string;
  formula: string;      // lines
  source: string;
  users: string;
  page: string;         // page under docs/
  causal: boolean;      // defined for causal attention only
  terms: boolean;       // attention requires Encoding.terms()
  contents: boolean;    // its scores depend on contents, so that a bias matrix does not exist
}

/** A trained matrix, [rows, columns]. */
export interface Parameter {
  name: string;
  rows: number;
  columns: number;
  initial_deviation: number;
  initial_mean: number;
  initial?: number[];   // row by row, if it does not begin with random values
}

export interface Gnomon {
  readonly version: string;
  readonly isa: string;                    // "wasm"
  readonly memoryBytes: number;            // size of the library's memory; it only grows
  encodings(): EncodingInfo[];
  /** The usual settings of an encoding for models of a shape, by name, title or synonym. */
  encoding(name: string, shape: Shape): Encoding;
  /** An encoding from its spec: {kind: 'rotary', rotary_dim: 64, pairing: 'halves'}. */
  encoding(spec: object): Encoding;
  /** Reads a config.json. pairing: that of a model_type that is not known. */
  model(config: string | object, options?: {pairing?: Pairing}): Model;
  /** A plan that adds no position. Without keys, calls require the option headDim. */
  plan(options?: {keys?: number, queries?: number, causal?: boolean, left?: number}): Plan;
  /** The sinusoidal table [positions, width]. */
  sinusoidal(positions: ArrayLike<number>, width: number,
             options?: {base?: number, layout?: 'interleaved' | 'half-split' | 'tensor2tensor'}):
      Float32Array;
  /** cos and sin [positions, frequencies], each rounded once from exact angles. */
  cosSin(positions: ArrayLike<number>, frequencies: ArrayLike<number>):
      {cos: Float32Array, sin: Float32Array};
  /** Rotates x [T, heads, D], a copy, at the positions. */
  rotate(x: Values, positions: ArrayLike<number>,
         options: {heads: number, rotaryDim: number, pairing: Pairing, base?: number,
                   frequencies?: ArrayLike<number>, headOffset?: number, inverse?: boolean}):
      Float32Array;
  /** ALiBi slopes [heads]. */
  alibiSlopes(heads: number): Float64Array;
  /** Normal random numbers, the same in every engine for a seed. */
  normal(count: number, seed: number): Float32Array;
  /** out [T, N] = x [T, C] weight [N, C]^T + bias [N]: a linear layer. */
  linear(x: Values, weight: Values, bias: Values | null,
         sizes: {inputs: number, outputs: number}): Float32Array;
  /** Copies values to the memory of the library, where they stay until free(): for weights. */
  constant(values: Float32Array): Constant;
  /** An empty cache of keys and values, float32, for Plan.decode(). */
  cache(sizes: {capacity: number, keyHeads: number, headDim: number, valueDim?: number}): Cache;
  /**
   * Terms of tokens that the caller computes (docs/attention/token_terms.md):
   * {log_gates: {values, shape: [1, heads, tokens]}}.
   */
  terms(arrays: Record<string, {values: Values, shape: number[]}>): Terms;
}

export interface PlanOptions {
  keys: number;                            // S; positions 0 to S - 1
  queries?: number;                        // T, the last of the keys; default: all
  causal?: boolean;                        // default: true
  left?: number;                           // keys that a query sees before its own
  parameters?: Float32Array[];             // default: randomParameters()
}

/** Free an encoding, model or plan with free() if many are made; else the collector does. */
export interface Encoding {
  readonly kind: string;
  readonly spec: Record<string, unknown>;
  readonly parameters: Parameter[];
  /** Values of the parameters as `gnomon plot` and `gnomon check` use them. */
  randomParameters(): Float32Array[];
  /** Frequencies of a rotary encoding, in radians per position, at a declared length. */
  frequencies(length?: number): Float64Array;
  plan(options: PlanOptions): Plan;
  /**
   * The terms of an encoding that depends on what the tokens hold (`contents` of EncodingInfo),
   * computed from the input of the layer, x [tokens, C]. Throws if the encoding has none.
   */
  terms(x: Values, options: {tokens: number, parameters?: Float32Array[]}): Terms;
  free(): void;
}

export interface Terms {
  free(): void;
}

export interface Heads {
  heads: number;                           // H
  keyHeads?: number;                       // Hk, divides H; default: H
  headDim?: number;                        // D; required if the plan was made without keys
  terms?: Terms;                           // required if the plan depends on what tokens hold
}

/** Keys and values of past tokens, in the memory of the library. */
export interface Cache {
  readonly capacity: number;               // tokens
  readonly keyHeads: number;               // Hk
  readonly headDim: number;                // D
  readonly valueDim: number;               // Dv; default: headDim
  readonly length: number;                 // tokens that it holds
  clear(): void;
  free(): void;
}

export interface Plan {
  /** The rows that are added to the embeddings, [T, width]; zeros without a table. */
  table(tokens: number, width: number): Float32Array;
  /** The bias [heads, T, S] that is added to the scores; zeros without one. */
  bias(heads: number, queries: number, keys: number): Float32Array;
  /** Rotated (normed, scaled) copies of q [T, H, D] and k [S, Hk, D]. */
  prepare(q: Values, k: Values, options: Heads): {q: Float32Array, k: Float32Array};
  /** Attention of q [T, H, D], k [S, Hk, D], v [S, Hk, Dv], with the rotation of the plan. */
  attention(q: Values, k: Values, v: Values, options: Heads): Float32Array;
  /**
   * A step of decoding with the plan of a layer of a model: prepares q [T, H, D], k [T, Hk, D]
   * and v [T, Hk, Dv] of new tokens, appends k and v to the cache, and computes attention of q
   * with all tokens of the cache. The plan has queries: T, keys: cache.length + T.
   */
  decode(q: Values, k: Values, v: Values, cache: Cache, options: {heads: number}): Float32Array;
  /** The weights [H, T, S] of the same call, computed in double. */
  weights(q: Values, k: Values, options: Heads): Float32Array;
  /**
   * The scores [H, T, S] before the softmax, with bias and scale, computed in double; hidden
   * keys: -Infinity.
   */
  scores(q: Values, k: Values, options: Heads): Float32Array;
  free(): void;
}

export interface Model {
  /** The description that `gnomon inspect --json` prints, at a length in tokens. */
  describe(length?: number): Record<string, unknown>;
  plan(layer: number, options: {keys: number, queries?: number, part?: string,
                                length?: number, parameters?: (Float32Array | null)[]}): Plan;
  layerParameters(layer: number, part?: string): Parameter[];
  free(): void;
}

/** The numbers and verdicts of `gnomon check NAME --json`. */
export interface Verdict {
  property: string;     // unique, distance, beyond, nearer, order, sides, cache
  word: string;         // yes, no, most, trained, ...
  number: string;
  sentence: string;
}
export interface Gnomon {
  check(name: string, setting?: {width?: number, heads?: number, trained?: number,
                                 length?: number}): {verdicts: Verdict[], [key: string]: unknown};
}
