// The package in a page of Chromium, from files that a server of this test sends.
import assert from 'node:assert/strict';
import {execFileSync, spawn} from 'node:child_process';
import {mkdirSync, readFileSync} from 'node:fs';
import {createServer} from 'node:http';
import {join} from 'node:path';
import {test} from 'node:test';

import {folder, gnomon, root} from './package.mjs';

const page = `<!doctype html><meta charset="utf-8"><script type="module">
try {
  const {load} = await import('./index.js');
  const gnomon = await load(await WebAssembly.compileStreaming(fetch('gnomon.wasm')));
  const {LLAMA, rotated} = await import('./examples/rotate.mjs');
  const {decoded} = await import('./examples/llama.mjs');
  const x = gnomon.normal(256, 7);
  const bits = Array.from(new Uint32Array(gnomon.rotate(
    x, [0, 5], {heads: 2, rotaryDim: 64, pairing: 'halves'}).buffer));
  send({rotated: rotated(gnomon, LLAMA), decoded: decoded(gnomon, LLAMA), bits});
} catch (error) {
  send({error: String(error)});
}
function send(result) {
  fetch('result', {method: 'POST', body: JSON.stringify(result)});
}
</script>`;
const types = {'.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm'};

// Answers requests for files of the package, and resolves `result` with what the page sends.
function serve() {
  let resolve;
  const result = new Promise(done => { resolve = done; });
  const server = createServer((request, response) => {
    if (request.method === 'POST') {
      let text = '';
      request.on('data', part => { text += part; });
      request.on('end', () => {
        response.end();
        resolve(JSON.parse(text));
      });
      return;
    }
    const name = request.url.slice(1);
    const known = ['index.js', 'gnomon.wasm', 'examples/rotate.mjs', 'examples/llama.mjs'];
    if (name === '') {
      response.writeHead(200, {'content-type': 'text/html'}).end(page);
    } else if (known.includes(name)) {
      response.writeHead(200, {'content-type': types[name.slice(name.lastIndexOf('.'))]});
      response.end(readFileSync(join(folder, name)));
    } else {
      response.writeHead(404).end();
    }
  });
  return new Promise(done => server.listen(0, '127.0.0.1', () => done({server, result})));
}

test('a page computes what Node computes', async () => {
  const {server, result} = await serve();
  const profile = join(root, 'build/wasm-test/chromium');
  mkdirSync(profile, {recursive: true});
  const browser = spawn('chromium', [
    '--headless', '--no-sandbox', '--disable-gpu', `--user-data-dir=${profile}`,
    `http://127.0.0.1:${server.address().port}/`], {stdio: 'ignore'});
  const failed = new Promise((_, reject) => {
    browser.on('error', reject);
    browser.on('exit', code => reject(new Error(`chromium exited with ${code}`)));
    setTimeout(() => reject(new Error('no result after 120 seconds')), 120e3).unref();
  });
  let found;
  try {
    found = await Promise.race([result, failed]);
  } finally {
    browser.removeAllListeners();
    browser.kill();
    server.close();
    server.closeAllConnections?.();
  }
  assert.equal(found.error, undefined);
  const node = name => execFileSync(process.execPath, [join(folder, 'examples', name)],
                                    {encoding: 'utf8'}).trim().split('\n');
  assert.deepEqual(found.rotated, node('rotate.mjs'));
  assert.deepEqual(found.decoded, node('llama.mjs'));
  const wanted = gnomon.rotate(gnomon.normal(256, 7), [0, 5],
                               {heads: 2, rotaryDim: 64, pairing: 'halves'});
  assert.deepEqual(found.bits, Array.from(new Uint32Array(wanted.buffer)));
});
