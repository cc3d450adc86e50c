// The package that the tests test: build/wasm, or the folder GNOMON_WASM.
import {pathToFileURL, fileURLToPath} from 'node:url';

export const root = fileURLToPath(new URL('../../', import.meta.url));
export const folder = process.env.GNOMON_WASM ?? `${root}build/wasm`;
export const {load, GnomonError} = await import(pathToFileURL(`${folder}/index.js`));
export const gnomon = await load();
