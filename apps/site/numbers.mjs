// The numbers of the book's prose: `46.8<!-- swap-words.product -->` is numbers().product of the
// figure swap-words, and `67<!-- facts.encodings -->` is from facts.mjs.
//
//   node apps/site/numbers.mjs --program PROGRAM --out FILE   writes {key: value} as JSON
//   node apps/site/numbers.mjs --program PROGRAM --write      writes the values into the pages
//   node apps/site/numbers.mjs --program PROGRAM --check      exits with 1 if a page has others
//
// --root FOLDER: the tree (default: that of this file). Requires build/wasm (`make wasm`).
import {execFileSync} from 'node:child_process';
import {readdirSync, readFileSync, writeFileSync} from 'node:fs';
import path from 'node:path';
import {fileURLToPath, pathToFileURL} from 'node:url';
import {parseArgs} from 'node:util';
import {facts} from './facts.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
// The same form as in sphinx/gnomon_site/numbers.py.
const number = String.raw`[-−+]?\d[\d.,/]*(?:e[-+−]?\d+)?%?`;
const marker = new RegExp(String.raw`(${number})?<!--\s*([\w-]+\.[\w.-]+)\s*-->`, 'g');
const whole = new RegExp(`^${number}$`);

/** All pages with markers: path, text. */
export function pages(root) {
  return readdirSync(path.join(root, 'docs'), {recursive: true})
      .filter(name => name.endsWith('.md'))
      .sort()
      .map(name => `docs/${name}`)
      .map(name => ({name, text: readFileSync(path.join(root, name), 'utf8')}))
      .filter(({text}) => text.search(marker) >= 0);
}

/** Markers of a page: {line, key, shown, begin, end} of the number before it. */
export function markers(text) {
  return [...text.matchAll(marker)].map(match => ({
    line: text.slice(0, match.index).split('\n').length,
    key: match[2],
    shown: match[1],
    begin: match.index,
    end: match.index + (match[1]?.length ?? 0),
  }));
}

/** Compares pages with the values. Returns sentences, `page:line: ...`. */
export function compare(list, values) {
  const found = [];
  for (const {name, text} of list) {
    for (const {line, key, shown} of markers(text)) {
      if (shown === undefined) found.push(`${name}:${line}: no number before the marker ${key}`);
      else if (!Object.hasOwn(values, key)) found.push(`${name}:${line}: no figure gives ${key}`);
      else if (values[key] !== shown)
        found.push(`${name}:${line}: ${key} is ${shown} on the page, computed ${values[key]}`);
    }
  }
  return found;
}

/** The text with the values. */
export function rewritten(text, values) {
  return markers(text).reverse().reduce(
      (out, {key, begin, end}) => out.slice(0, begin) + values[key] + out.slice(end), text);
}

async function figureModules(root) {
  const folder = path.join(root, 'apps/site/figures');
  const names = readdirSync(folder).filter(name => name.endsWith('.js')).sort();
  const modules = await Promise.all(
      names.map(name => import(pathToFileURL(path.join(folder, name)).href)));
  return modules.map(module => module.default);
}

/** docs/book/data/NAME.json by name. */
export function readData(root) {
  const folder = path.join(root, 'docs/book/data');
  let names = [];
  try {
    names = readdirSync(folder).filter(name => name.endsWith('.json'));
  } catch (error) {
    if (error.code !== 'ENOENT') throw error;
  }
  return Object.fromEntries(names.map(
      name => [name.slice(0, -5), JSON.parse(readFileSync(path.join(folder, name), 'utf8'))]));
}

/** All numbers by key. */
export async function compute(root, program) {
  const {load} = await import(pathToFileURL(path.join(root, 'build/wasm/index.js')).href);
  const gnomon = await load();
  const data = readData(root);
  const run = (...args) => execFileSync(program, args, {encoding: 'utf8', maxBuffer: 2 ** 26});
  const values = {};
  for (const [key, value] of Object.entries(facts(run))) values[`facts.${key}`] = value;
  for (const figure of await figureModules(root)) {
    let numbers;
    try {
      numbers = figure.numbers?.(gnomon, data) ?? {};
    } catch (error) {
      throw new Error(`the numbers of ${figure.name}: ${error.message}`);
    }
    for (const [key, value] of Object.entries(numbers)) {
      if (!whole.test(String(value)))
        throw new Error(`${figure.name}.${key} is '${value}', which is not one number`);
      values[`${figure.name}.${key}`] = String(value);
    }
  }
  return values;
}

async function main() {
  const {values: options} = parseArgs({options: {
    program: {type: 'string'}, root: {type: 'string', default: path.join(here, '../..')},
    out: {type: 'string'}, write: {type: 'boolean'}, check: {type: 'boolean'},
  }});
  if (!options.program) throw new Error('--program is required');
  const root = path.resolve(options.root);
  const values = await compute(root, options.program);
  if (options.out) writeFileSync(options.out, JSON.stringify(values, null, 1));
  const list = pages(root);
  const found = compare(list, values);
  const unknown = found.filter(line => !line.includes(' on the page, computed '));
  if (options.write && unknown.length === 0) {
    for (const {name, text} of list) {
      const next = rewritten(text, values);
      if (next === text) continue;
      writeFileSync(path.join(root, name), next);
      console.log(`wrote ${name}`);
    }
  }
  const wrong = options.check ? found : unknown;
  for (const line of wrong) console.error(line);
  return wrong.length ? 1 : 0;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  process.exitCode = await main().catch(error => {
    console.error(`numbers: ${error.message}`);
    return 1;
  });
}
