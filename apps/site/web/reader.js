export function mountReader() {}
