// The package as npm installs it: its files, its exports, its types, and its examples.
import assert from 'node:assert/strict';
import {execFileSync, spawnSync} from 'node:child_process';
import {cpSync, existsSync, mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync}
  from 'node:fs';
import {join} from 'node:path';
import {test} from 'node:test';

import * as module from './package.mjs';

const {folder, gnomon, root} = module;
const home = join(root, 'build/wasm-test/install');
const installed = join(home, 'node_modules/@gnomon/wasm');
const about = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
const has = program => spawnSync(program, ['--version']).status === 0;

// Installs the archive of `npm pack`; without npm, the files that package.json names.
rmSync(home, {recursive: true, force: true});
mkdirSync(installed, {recursive: true});
if (has('npm')) {
  execFileSync('npm', ['pack', '--silent', '--offline', '--pack-destination', home, folder]);
  const [archive] = readdirSync(home).filter(name => name.endsWith('.tgz'));
  execFileSync('tar', ['-xzf', join(home, archive), '-C', installed, '--strip-components=1']);
} else {
  for (const name of ['package.json', ...about.files])
    cpSync(join(folder, name), join(installed, name), {recursive: true});
}
const files = path => readdirSync(path, {withFileTypes: true}).flatMap(
  one => one.isDirectory() ? files(join(path, one.name)) : [join(path, one.name)]);
const run = (name, ...options) => {
  const {status, stdout, stderr} =
    spawnSync(process.execPath, [name, ...options], {cwd: home, encoding: 'utf8'});
  assert.equal(status, 0, stderr);
  return stdout;
};

test('the package has all files of the build, and no others', () => {
  const names = from => files(from).map(path => path.slice(from.length + 1)).sort();
  assert.deepEqual(names(installed), names(folder.replace(/\/$/, '')));
  for (const target of [about.main, about.types, ...about.files])
    assert.ok(existsSync(join(installed, target)), target);
});

test('a program imports it by its name', () => {
  writeFileSync(join(home, 'by-name.mjs'), `
import {load, GnomonError} from '@gnomon/wasm';
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
const {resolve} = createRequire(import.meta.url);
const bytes = readFileSync(resolve('@gnomon/wasm/gnomon.wasm'));
const gnomons = [await load(), await load(bytes), await load(new WebAssembly.Module(bytes))];
console.log(...gnomons.map(one => one.version), resolve('@gnomon/wasm/package.json').length > 0);
try {
  gnomons[0].encoding('none such', {width: 8, heads: 1, length: 8});
} catch (error) {
  console.log(error instanceof GnomonError);
}
try {
  await import('@gnomon/wasm/index.js');
} catch (error) {
  console.log(error.code);
}`);
  const version = gnomon.version;
  assert.equal(run('by-name.mjs'), `${version} ${version} ${version} true\ntrue\n` +
               'ERR_PACKAGE_PATH_NOT_EXPORTED\n');
});

test('the types declare what the package exports', async () => {
  const text = readFileSync(join(folder, 'index.d.ts'), 'utf8');
  const declared = [...text.matchAll(/^export (?:function|class|const) (\w+)/gm)].map(one => one[1]);
  const exported = Object.keys(await import(join(installed, 'index.js')));
  assert.deepEqual([...declared].sort(), exported.sort());
});

// The methods and properties that users may call. `pointer` and the like are of the package.
test('the types declare the members of each class', () => {
  const text = readFileSync(join(folder, 'index.d.ts'), 'utf8').replace(/\/\*[^]*?\*\//g, '');
  const declared = name => {
    const bodies = [...text.matchAll(new RegExp(`^export interface ${name} \\{$([^]*?)^\\}`, 'gm'))];
    assert.ok(bodies.length > 0, name);
    return new Set(bodies.flatMap(body => [...body[1].matchAll(/^ {2}(?:readonly )?(\w+)[(:?]/gm)]
      .map(member => member[1])));
  };
  const encoding = gnomon.encoding('rotary', {width: 8, heads: 1, length: 8});
  const objects = {
    Gnomon: gnomon, Encoding: encoding, Plan: encoding.plan({keys: 2}),
    Model: gnomon.model({model_type: 'llama', hidden_size: 8, num_attention_heads: 1,
                         num_hidden_layers: 1, max_position_embeddings: 8}),
    Terms: gnomon.terms({}), Constant: gnomon.constant(new Float32Array(1)),
    Cache: gnomon.cache({capacity: 1, keyHeads: 1, headDim: 1}),
  };
  const internal = new Set(['constructor', 'memory', 'pointer', 'destroy', 'handle']);
  const ofPackage = {Terms: ['set'], Cache: ['append']};
  for (const [name, object] of Object.entries(objects)) {
    const members = new Set([
      ...Object.keys(object),
      ...Object.getOwnPropertyNames(Object.getPrototypeOf(object)),
      ...(name === 'Gnomon' || name === 'Constant' || name === 'Cache' ? [] : ['free']),
    ].filter(member => !internal.has(member) && !ofPackage[name]?.includes(member)));
    assert.deepEqual([...members].sort(), [...declared(name)].sort(), name);
  }
});

test('the compiler of TypeScript accepts the examples', {skip: !has('tsc') && 'no tsc'}, () => {
  for (const name of readdirSync(join(folder, 'examples')))
    cpSync(join(folder, 'examples', name), join(home, name));
  writeFileSync(join(home, 'node.d.ts'), `
declare const process: {argv: string[]};
declare module 'node:fs' { export function readFileSync(path: string, encoding: 'utf8'): string; }
`);
  const options = ['--noEmit', '--strict', '--allowJs', '--checkJs', '--target', 'es2022',
                   '--module', 'node16', '--moduleResolution', 'node16', '--lib', 'es2022,dom'];
  const compile = (...names) => spawnSync('tsc', [...options, ...names, 'node.d.ts'],
                                          {cwd: home, encoding: 'utf8'});
  const {status, stdout} = compile('rotate.mjs', 'llama.mjs');
  assert.equal(status, 0, stdout);
  const wrong = readFileSync(join(home, 'rotate.mjs'), 'utf8')
    .replace('{heads, ...rotation}', '{...rotation}');
  writeFileSync(join(home, 'wrong.mjs'), wrong);
  assert.match(compile('wrong.mjs').stdout, /heads/);
});

test('the examples run, also with another config', () => {
  const examples = join(installed, 'examples');
  assert.match(run(join(examples, 'rotate.mjs')), /^32 heads.*\n(.*\n){3}.*rotates equally\n$/);
  assert.match(run(join(examples, 'llama.mjs')), /^32 layers in 1 groups\n.*\n.*\n.*one pass\n$/);
  assert.match(run(join(examples, 'llama.mjs'), join(root, 'tests/rust/config.json')),
               /^6 layers in 2 groups\n.*\n.*\n.*one pass\n$/);
});
