export function mountExplorer() {}
export function mountPlayground() {}
