// The worker's program: computes figures, the explorer and the reader with the library.
import {figures} from 'gnomon-figures';  // apps/site/bundle.py lists the modules
import {load} from '../../../bindings/wasm/index.js';
import * as explorer from './explorer_compute.js';
import * as reader from './reader_compute.js';

let library, data;

const tasks = {
  figure: (gnomon, {name, state}) => {
    const figure = figures[name];
    const result = figure.compute(gnomon, state, data);
    return {result, holds: figure.claim(result, state)};
  },
  explorer: (gnomon, request) => explorer.compute(gnomon, request, data),
  reader: (gnomon, request) => reader.compute(gnomon, request, data),
};

self.onmessage = async ({data: message}) => {
  if (message.start) {
    data = message.start.data;
    library = load(message.start.wasm);
    return;
  }
  const {id, task, argument} = message;
  try {
    const gnomon = await library;
    self.postMessage({id, result: await tasks[task](gnomon, argument)});
  } catch (error) {
    self.postMessage({id, error: error.message});
  }
};
