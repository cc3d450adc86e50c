// The types of the package, by the compiler of TypeScript.
import assert from 'node:assert/strict';
import {spawnSync} from 'node:child_process';
import {fileURLToPath} from 'node:url';
import {test} from 'node:test';

const user = fileURLToPath(new URL('user.ts', import.meta.url));
const options = ['--noEmit', '--strict', '--noUncheckedIndexedAccess', '--target', 'es2022',
                 '--module', 'esnext', '--moduleResolution', 'node', '--lib', 'es2022,dom'];
const installed = spawnSync('tsc', ['--version']).status === 0;

test('a program that uses the package has the right types', {skip: !installed && 'no tsc'}, () => {
  const {stdout, status} = spawnSync('tsc', [...options, user], {encoding: 'utf8'});
  assert.equal(status, 0, stdout);
});
