// Uses of the package that the types must allow, and below, those that they must refuse.
import {load, GnomonError} from '../../build/wasm/index.js';
import type {Cache, Constant, Encoding, EncodingInfo, Gnomon, Plan, Values, Verdict}
  from '../../build/wasm/index.js';

export async function use(bytes: ArrayBuffer): Promise<Float32Array> {
  const gnomon: Gnomon = await load(bytes);
  const names: string[] = gnomon.encodings().map((one: EncodingInfo) => one.name);
  const rotary: Encoding = gnomon.encoding(names[0]!, {width: 64, heads: 1, length: 128});
  const plan: Plan = rotary.plan({keys: 16, queries: 4, left: 3, causal: true});
  const q = gnomon.normal(4 * 64, 1);
  const k: Constant = gnomon.constant(gnomon.normal(16 * 64, 2));
  const both: Values[] = [q, k];
  const {cos} = gnomon.cosSin([0, 1], rotary.frequencies());
  const verdicts: Verdict[] = gnomon.check('rotary', {width: 64}).verdicts;
  try {
    gnomon.model({model_type: 'llama'}, {pairing: 'halves'}).plan(0, {keys: 4}).free();
  } catch (error) {
    if (error instanceof GnomonError && error.status === 2) return cos;
  }
  const cache: Cache = gnomon.cache({capacity: 8, keyHeads: 1, headDim: 64});
  gnomon.model('{}').plan(0, {keys: cache.length + 1}).decode(q, k, k, cache, {heads: 1});
  plan.scores(both[0]!, k, {heads: 1, keyHeads: 1});
  gnomon.plan({causal: false}).weights(q, q, {heads: 1, headDim: 64});
  gnomon.linear(q, k, null, {inputs: 64, outputs: verdicts.length});
  return plan.attention(q, k, k, {heads: 1});
}

export function refused(gnomon: Gnomon) {
  // @ts-expect-error heads is required
  gnomon.encoding('rotary', {width: 64, length: 128});
  // @ts-expect-error a number is no array
  gnomon.linear(1, new Float32Array(1), null, {inputs: 1, outputs: 1});
  // @ts-expect-error pairings have names
  gnomon.model('{}', {pairing: 'both'});
}
