// The page's side of the worker: one worker for a page, which holds the library.
//
// A classic page of file:// may not fetch a file or start a worker from one. The worker's program, the
// library and the data are scripts that set a global, and the worker starts from a Blob.

const scripts = new Map();

/** Loads a script of the folder _static once. */
export function loadScript(name) {
  if (!scripts.has(name)) {
    scripts.set(name, new Promise((resolve, reject) => {
      const script = document.createElement('script');
      script.src = `${staticFolder()}${name}`;
      script.onload = resolve;
      script.onerror = () => reject(new Error(`cannot load ${name}`));
      document.head.append(script);
    }));
  }
  return scripts.get(name);
}

let folder = '';
/** The folder of the scripts, with a slash at its end; set by the page's program. */
export function setStaticFolder(path) {
  folder = path;
}
function staticFolder() {
  return folder;
}

async function unpacked(base64) {
  const bytes = Uint8Array.from(atob(base64), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).arrayBuffer();
}

/** A connection to the worker: call(task, argument) resolves with the task's result. */
export class Client {
  static #shared;
  /** The client of the page. */
  static shared() {
    Client.#shared ??= new Client();
    return Client.#shared;
  }

  #next = 0;
  #waiting = new Map();
  #worker;

  constructor() {
    this.#worker = this.#start();
    this.#worker.catch(() => {});  // each call reports it
  }

  async #start() {
    await Promise.all(['gnomon-worker.js', 'gnomon-wasm.js', 'gnomon-data.js'].map(loadScript));
    const url = URL.createObjectURL(new Blob([self.GNOMON_WORKER], {type: 'text/javascript'}));
    const worker = new Worker(url);
    worker.onmessage = ({data}) => this.#answer(data);
    worker.onerror = event => this.#fail(event.message);
    const wasm = await unpacked(self.GNOMON_WASM);
    worker.postMessage({start: {wasm, data: self.GNOMON_DATA}}, [wasm]);
    return worker;
  }

  #answer({id, result, error}) {
    const {resolve, reject} = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (error === undefined) resolve(result);
    else reject(new Error(error));
  }

  #fail(message) {
    for (const {reject} of this.#waiting.values()) reject(new Error(message));
    this.#waiting.clear();
  }

  async call(task, argument) {
    const worker = await this.#worker;
    const id = this.#next++;
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, {resolve, reject});
      worker.postMessage({id, task, argument});
    });
  }
}

/**
 * Runs one call at a time and keeps only the latest argument that arrives meanwhile, so that a slider
 * never waits for its past. `show(result, argument)` and `fail(error)` get the outcomes.
 */
export class Latest {
  #busy = false;
  #next;
  #run;
  #show;
  #fail;
  constructor(run, show, fail) {
    this.#run = run;
    this.#show = show;
    this.#fail = fail;
  }
  async set(argument) {
    this.#next = {argument};
    if (this.#busy) return;
    this.#busy = true;
    while (this.#next) {
      const {argument: present} = this.#next;
      this.#next = undefined;
      try {
        this.#show(await this.#run(present), present);
      } catch (error) {
        this.#fail(error, present);
      }
    }
    this.#busy = false;
  }
}
