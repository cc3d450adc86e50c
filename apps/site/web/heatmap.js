// view.heatmap: a matrix as colours, one pixel of a canvas for each value.
import {gradient, palette} from './colours.js';
import {element} from './dom.js';
import {svg} from './svg.js';
import {number, text} from './text.js';

// The finite range of values; for `diverging` symmetric around 0.
function rangeOf(values, scale) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return [0, 1];
  if (scale === 'diverging') {
    const size = Math.max(-low, high) || 1;
    return [-size, size];
  }
  return low < high ? [low, high] : [low - 0.5, low + 0.5];
}

// Ticks of an axis: labels if there are few, else the first, some between, and the last.
function ticks(count, labels, first = 0) {
  if (labels && count <= 40) return labels.map((label, i) => [i, label]);
  const step = [1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 64, 100, 128, 200, 256, 500, 512, 1000].find(
      one => count / one <= 6) ?? Math.ceil(count / 5);
  const all = [];
  for (let i = 0; i < count; i += step) all.push([i, labels ? labels[i] : String(first + i)]);
  return all;
}

export class Heatmap {
  constructor(part, {language, set}) {
    this.language = language;
    this.canvas = element('canvas', {class: 'gnomon-cells'});
    this.marks = svg('svg', {class: 'gnomon-marks', preserveAspectRatio: 'none', 'aria-hidden': 'true'});
    this.rows = element('div', {class: 'gnomon-rows', 'aria-hidden': 'true'});
    this.columns = element('div', {class: 'gnomon-columns', 'aria-hidden': 'true'});
    this.rowTitle = element('div', {class: 'gnomon-row-title'});
    this.columnTitle = element('div', {class: 'gnomon-column-title'});
    this.stage = element('div', {class: 'gnomon-stage'}, this.canvas, this.marks);
    this.low = element('span');
    this.high = element('span');
    this.bar = element('span', {class: 'gnomon-bar'});
    this.legend = element('div', {class: 'gnomon-legend'}, this.low, this.bar, this.high);
    this.readout = element('div', {class: 'gnomon-readout'});
    part.append(element('div', {class: 'gnomon-map'}, this.rowTitle, this.rows, this.stage, this.columns,
                        this.columnTitle),
                element('div', {class: 'gnomon-below'}, this.legend, this.readout));
    this.stage.addEventListener('pointermove', event => this.#read(event));
    this.stage.addEventListener('pointerleave', () => { this.readout.textContent = ''; });
    this.stage.addEventListener('pointerdown', event => {
      const cell = this.#cell(event);
      if (this.options.pick && cell) set(this.options.pick(...cell));
    });
  }

  update(options) {
    this.options = options;
    const {values, rows, columns, scale = 'sequential', marks = []} = options;
    const range = options.range ?? rangeOf(values, scale);
    if (this.canvas.width !== columns || this.canvas.height !== rows)
      Object.assign(this.canvas, {width: columns, height: rows});
    const aspect = options.aspect ?? Math.min(Math.max(rows / columns, 0.3), 1.25);
    this.stage.style.aspectRatio = `1 / ${aspect}`;
    this.stage.classList.toggle('gnomon-pick', Boolean(options.pick));
    this.#paint(values, rows, columns, scale, range);
    this.#outline(marks, rows, columns);
    this.#axis(this.rows, rows, options.rowLabels, options.firstRow, 'top');
    this.#axis(this.columns, columns, options.columnLabels, options.firstColumn, 'left');
    this.rowTitle.textContent = options.rowTitle ?? '';
    this.columnTitle.textContent = options.columnTitle ?? '';
    this.legend.hidden = options.legend === false;
    this.low.textContent = number(range[0]);
    this.high.textContent = number(range[1]);
    this.bar.style.background = gradient(scale);
  }

  #paint(values, rows, columns, scale, [low, high]) {
    const context = this.canvas.getContext('2d'), image = context.createImageData(columns, rows);
    const colours = new Uint32Array(palette(scale).buffer), to = new Uint32Array(image.data.buffer);
    const factor = 255 / (high - low);
    for (let i = 0; i < to.length; ++i) {
      const value = values[i];
      // -Infinity is a hidden score; NaN is a hidden weight. Both stay transparent.
      if (Number.isFinite(value))
        to[i] = colours[Math.min(Math.max(Math.round((value - low) * factor), 0), 255)];
    }
    context.putImageData(image, 0, 0);
  }

  #outline(marks, rows, columns) {
    this.marks.setAttribute('viewBox', `0 0 ${columns} ${rows}`);
    this.marks.replaceChildren(...marks.map(
        ({row, column, rows: height = 1, columns: width = 1}) =>
            svg('rect', {x: column, y: row, width, height, 'vector-effect': 'non-scaling-stroke'})));
  }

  #axis(box, count, labels, first, side) {
    box.classList.toggle('gnomon-few', Boolean(labels) && count <= 40);
    box.replaceChildren(...ticks(count, labels, first).map(([at, label]) => {
      const tick = element('span', {}, label);
      tick.style[side] = `${100 * (at + 0.5) / count}%`;
      return tick;
    }));
    if (side === 'top') {
      const longest = Math.max(...ticks(count, labels, first).map(([, label]) => width(label)));
      box.style.width = `${Math.min(longest, 9) * 0.62 + 0.3}em`;
    } else {
      const longest = Math.max(0, ...ticks(count, labels, first).map(([, label]) => width(label)));
      const isTight = Boolean(labels) && count <= 40 && count * longest > 40;
      box.classList.toggle('gnomon-upright', isTight);
      box.style.height = isTight ? `${Math.min(longest, 9) * 0.62 + 0.4}em` : '';
    }
  }

  #cell(event) {
    const box = this.canvas.getBoundingClientRect(), {rows, columns} = this.options;
    const row = Math.floor((event.clientY - box.top) / box.height * rows);
    const column = Math.floor((event.clientX - box.left) / box.width * columns);
    return row >= 0 && row < rows && column >= 0 && column < columns ? [row, column] : undefined;
  }

  #read(event) {
    const cell = this.#cell(event);
    if (!cell) return;
    const [row, column] = cell, {rowLabels, columnLabels, values, columns} = this.options;
    const value = values[row * columns + column];
    const name = (labels, at, first = 0) => labels ? labels[at] : first + at;
    this.readout.textContent =
        `${this.options.rowTitle ?? text('row', this.language)} ` +
        `${name(rowLabels, row, this.options.firstRow)}, ` +
        `${this.options.columnTitle ?? text('column', this.language)} ` +
        `${name(columnLabels, column, this.options.firstColumn)}: ` +
        `${Number.isFinite(value) ? number(value) : text('hidden', this.language)}`;
  }
}

// The width of a label in Latin letters: a Chinese character takes two.
const width = label => [...String(label)].reduce((sum, c) => sum + (c > '\u2E80' ? 1.7 : 1), 0);
