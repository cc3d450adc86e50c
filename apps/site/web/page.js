// The program of a page: replaces each figure's picture by the figure, and starts the explorer, the
// playground and the reader where a page has them.
import {figures} from 'gnomon-figures';  // apps/site/bundle.py lists the modules
import {setStaticFolder} from './client.js';
import {mountExplorer, mountPlayground} from './explorer.js';
import {mountFigure} from './figure.js';
import {mountReader} from './reader.js';

setStaticFolder(new URL('.', document.currentScript.src).href);

function start() {
  for (const box of document.querySelectorAll('.gnomon-figure')) {
    const module = figures[box.dataset.figure];
    if (module) mountFigure(box, module);
  }
  for (const [name, mount] of
       [['explorer', mountExplorer], ['playground', mountPlayground], ['reader', mountReader]])
    for (const box of document.querySelectorAll(`.gnomon-${name}`)) mount(box);
}

if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
else start();
