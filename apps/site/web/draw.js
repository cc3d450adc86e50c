// The view of a figure: parts with stable ids (see ../README.md).
import {colourOf, onTheme} from './colours.js';
import {element} from './dom.js';
import {Heatmap} from './heatmap.js';
import {Lines} from './lines.js';
import {Pen, svg} from './svg.js';
import {number} from './text.js';

class Bars {
  constructor(part) {
    this.list = element('div', {class: 'gnomon-bars'});
    part.append(this.list);
  }
  update({bars, unit = '', range}) {
    const finite = bars.flatMap(b => [b.value, b.low ?? 0, b.high ?? 0]).filter(Number.isFinite);
    const [low, high] = range ?? [Math.min(0, ...finite), Math.max(0, ...finite)];
    const at = value => 100 * (Math.min(Math.max(value, low), high) - low) / ((high - low) || 1);
    this.list.replaceChildren(...bars.flatMap(({name, value, low: least, high: most, colour = 'a'}) => {
      const track = element('span', {class: 'gnomon-track'});
      if (Number.isFinite(value))
        track.append(element('span', {class: 'gnomon-fill', style:
            `left:${Math.min(at(0), at(value))}%;width:${Math.abs(at(value) - at(0))}%;` +
            `background:${colourOf(colour)}`}));
      if (Number.isFinite(least) && Number.isFinite(most))
        track.append(element('span', {class: 'gnomon-interval', style:
            `left:${at(least)}%;width:${at(most) - at(least)}%`}));
      return [element('span', {class: 'gnomon-bar-name'}, name), track,
              element('span', {class: 'gnomon-bar-value'}, Number.isFinite(value) ? `${number(value)} ${unit.trim()}`.trim() : '–')];
    }));
  }
}

class Words {
  constructor(part) {
    this.list = element('div', {class: 'gnomon-words'});
    part.append(this.list);
  }
  update({words}) {
    this.list.replaceChildren(...words.map(({text, note, colour}) => {
      const box = element('span', {class: 'gnomon-word'}, text);
      if (colour) box.style.borderColor = colourOf(colour);
      if (note !== undefined) box.append(element('small', {}, note));
      return box;
    }));
  }
}

class Table {
  constructor(part) {
    this.table = element('table', {});
    part.append(element('div', {class: 'gnomon-scroll', tabindex: 0, role: 'region',
                                'aria-label': part.getAttribute('aria-label') ?? 'table'}, this.table));
  }
  update({head = [], rows, title}) {
    if (title) this.table.parentElement.setAttribute('aria-label', title);
    const line = (cells, name) => element('tr', {}, ...cells.map(cell => element(
        name, name === 'th' ? {scope: 'col'} : {}, typeof cell === 'number' ? number(cell) : cell)));
    this.table.replaceChildren(
        ...(head.length ? [element('thead', {}, line(head, 'th'))] : []),
        element('tbody', {}, ...rows.map(row => line(row, 'td'))));
  }
}

class Drawing {
  constructor(part, {set}) {
    this.canvas = svg('svg', {class: 'gnomon-drawing', 'aria-hidden': 'true'});
    part.append(this.canvas);
    this.canvas.addEventListener('pointerdown', event => {
      const index = event.target.dataset?.handle;
      if (index === undefined) return;
      event.preventDefault();
      this.held = Number(index);
      this.canvas.setPointerCapture(event.pointerId);
    });
    this.canvas.addEventListener('pointermove', event => {
      if (this.held === undefined) return;
      const matrix = this.canvas.getScreenCTM().inverse();
      const {x, y} = new DOMPoint(event.clientX, event.clientY).matrixTransform(matrix);
      const settings = this.pen.handles[this.held]?.move(x, y);
      if (settings) set(settings);
    });
    for (const end of ['pointerup', 'pointercancel'])
      this.canvas.addEventListener(end, () => { this.held = undefined; });
  }
  update({width, height, paint}) {
    this.canvas.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.canvas.style.maxWidth = `${width * 1.25}px`;
    const group = svg('g');
    this.pen = new Pen(group);
    paint(this.pen);
    this.canvas.replaceChildren(group);
  }
}

const kinds = {heatmap: Heatmap, lines: Lines, bars: Bars, words: Words, table: Table, drawing: Drawing};

/** Draws into a container. `set(settings)` changes controls, for parts that the reader can drag or pick. */
export class View {
  #parts = new Map();
  #used = new Set();
  #context;

  constructor(container, {language, set = () => {}}) {
    this.container = container;
    this.#context = {language, set};
    onTheme(() => {
      for (const {chart, options} of this.#parts.values()) chart.update(options);
    });
  }

  heatmap(id, options) { this.#update(id, 'heatmap', options); }
  lines(id, options) { this.#update(id, 'lines', options); }
  bars(id, options) { this.#update(id, 'bars', options); }
  words(id, options) { this.#update(id, 'words', options); }
  table(id, options) { this.#update(id, 'table', options); }
  drawing(id, options, paint) { this.#update(id, 'drawing', {...options, paint}); }

  /** Removes parts that the last draw did not use. */
  finish() {
    for (const [id, {part}] of this.#parts)
      if (!this.#used.has(id)) {
        part.remove();
        this.#parts.delete(id);
      }
    this.#used.clear();
  }

  #update(id, kind, options) {
    let one = this.#parts.get(id);
    if (!one || one.kind !== kind) {
      one?.part.remove();
      const title = element('p', {class: 'gnomon-part-title'});
      const part = element('div', {class: 'gnomon-part'}, title);
      this.container.append(part);
      one = {kind, part, title, chart: new kinds[kind](part, this.#context)};
      this.#parts.set(id, one);
    }
    this.#used.add(id);
    one.options = options;
    one.part.className = `gnomon-part gnomon-${options.span ?? 'full'} gnomon-kind-${kind}`;
    one.title.textContent = options.title ?? '';
    one.title.hidden = !options.title;
    one.chart.update(options);
  }
}
