export function compute() {
  throw new Error('not written');
}
