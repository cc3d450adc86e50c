// view.lines: lines, bands and rules in one pair of axes.
import {colourOf} from './colours.js';
import {element} from './dom.js';
import {svg} from './svg.js';
import {number, tick} from './text.js';

const order = ['a', 'b', 'c', 'd', 'e', 'f'];
const margin = {left: 52, right: 12, top: 12, bottom: 40};

// Ticks of a linear or logarithmic axis over [low, high].
export function axisTicks(low, high, isLog, room) {
  if (isLog) {
    const base = Math.log2(high / low) > 12 ? 10 : 2, all = [];
    const from = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
    const to = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
    const step = Math.max(1, Math.ceil((to - from + 1) / room));
    for (let e = from; e <= to; e += step) all.push(base ** e);
    return all.length > 1 ? all : [low, high];
  }
  const rough = (high - low) / room, power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(m => m * power).find(one => one >= rough * 0.999);
  const all = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i)
    all.push(Math.abs(i * step) < step * 1e-6 ? 0 : i * step);
  return all;
}

function extent(values, isLog) {
  let low = Infinity, high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value) || (isLog && value <= 0)) continue;
    if (value < low) low = value;
    if (value > high) high = value;
  }
  if (low > high) return [isLog ? 1 : 0, isLog ? 2 : 1];
  if (low === high) return isLog ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
  return [low, high];
}

export class Lines {
  constructor(part) {
    this.canvas = svg('svg', {class: 'gnomon-chart', 'aria-hidden': 'true'});
    this.legend = element('div', {class: 'gnomon-names'});
    this.readout = element('div', {class: 'gnomon-readout'});
    part.append(this.canvas, element('div', {class: 'gnomon-below'}, this.legend, this.readout));
    this.width = 0;
    new ResizeObserver(() => {
      if (this.options && this.canvas.clientWidth !== this.width) this.update(this.options);
    }).observe(part);
    this.canvas.addEventListener('pointermove', event => this.#read(event));
    this.canvas.addEventListener('pointerleave', () => {
      this.readout.textContent = '';
      this.canvas.querySelector('.gnomon-cursor')?.remove();
    });
  }

  update(options) {
    this.options = options;
    const {series, marks = [], xLog = false, yLog = false, height = 260} = options;
    const width = this.width = this.canvas.clientWidth || 600;
    const xs = options.xRange ??
        extent([...series.flatMap(s => [...s.x]), ...marks.map(m => m.x ?? NaN)], xLog);
    const ys = options.yRange ?? this.#yRange(series, marks, yLog);
    const scale = (value, [low, high], isLog, from, to) => from + (to - from) *
        (isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low));
    this.x = value => scale(value, xs, xLog, margin.left, width - margin.right);
    this.y = value => scale(value, ys, yLog, height - margin.bottom, margin.top);
    this.canvas.setAttribute('viewBox', `0 0 ${width} ${height}`);
    this.canvas.style.height = `${height}px`;
    this.canvas.replaceChildren(...this.#axes(options, xs, ys, width, height),
                                ...this.#marks(marks, width, height),
                                ...series.flatMap((one, i) => this.#series(one, i, xs, ys)));
    this.legend.replaceChildren(...(series.length > 1 || series[0]?.name ? series : []).map(
        (one, i) => element('span', {class: `gnomon-name${one.dashed ? ' gnomon-dashed' : ''}`,
                                     style: `--colour:${colourOf(one.colour ?? order[i % 6])}`},
                            one.name ?? '')));
  }

  #yRange(series, marks, yLog) {
    const [low, high] = extent(
        [...series.flatMap(s => [...s.y, ...(s.low ?? []), ...(s.high ?? [])]),
         ...marks.map(m => m.y ?? NaN)], yLog);
    const room = yLog ? 1 : (high - low) * 0.04;
    return yLog ? [low, high] : [low - room, high + room];
  }

  #axes({xTitle = '', yTitle = '', xLog, yLog}, xs, ys, width, height) {
    const bottom = height - margin.bottom, all = [];
    for (const value of axisTicks(...ys, yLog, 5)) {
      const y = this.y(value);
      all.push(svg('line', {x1: margin.left, x2: width - margin.right, y1: y, y2: y, class: 'gnomon-grid'}),
               svg('text', {x: margin.left - 6, y: y + 4, 'text-anchor': 'end'}, tick(value)));
    }
    for (const value of axisTicks(...xs, xLog, Math.max(2, Math.floor(width / 90)))) {
      const x = this.x(value);
      all.push(svg('line', {x1: x, x2: x, y1: bottom, y2: bottom + 4, class: 'gnomon-axis'}),
               svg('text', {x, y: bottom + 17, 'text-anchor': 'middle'}, tick(value)));
    }
    all.push(svg('line', {x1: margin.left, x2: width - margin.right, y1: bottom, y2: bottom,
                          class: 'gnomon-axis'}),
             svg('text', {x: (margin.left + width - margin.right) / 2, y: height - 5,
                          'text-anchor': 'middle', class: 'gnomon-axis-title'}, xTitle),
             svg('text', {transform: `translate(12 ${(margin.top + bottom) / 2}) rotate(-90)`,
                          'text-anchor': 'middle', class: 'gnomon-axis-title'}, yTitle));
    return all;
  }

  #marks(marks, width, height) {
    return marks.flatMap(({x, y, label = ''}) => {
      const at = x === undefined ? this.y(y) : this.x(x);
      const line = x === undefined
          ? {x1: margin.left, x2: width - margin.right, y1: at, y2: at}
          : {x1: at, x2: at, y1: margin.top, y2: height - margin.bottom};
      const isLate = x !== undefined && at > width * 0.65;
      return [svg('line', {...line, class: 'gnomon-rule'}),
              svg('text', {x: x === undefined ? width - margin.right : at + (isLate ? -5 : 5),
                           y: x === undefined ? at - 5 : margin.top + 9,
                           'text-anchor': x === undefined || isLate ? 'end' : 'start',
                           class: 'gnomon-rule-label'}, label)];
    });
  }

  #series({x, y, low, high, dashed, points, colour}, index, xs, ys) {
    const stroke = colourOf(colour ?? order[index % 6]), all = [];
    const at = (i, values) => `${this.x(x[i]).toFixed(1)} ${this.y(values[i]).toFixed(1)}`;
    const inside = i => Number.isFinite(y[i]) && x[i] >= xs[0] && x[i] <= xs[1];
    if (low && high) {
      const kept = [...x.keys()].filter(i => inside(i) && Number.isFinite(low[i]) && Number.isFinite(high[i]));
      if (kept.length)
        all.push(svg('path', {class: 'gnomon-band', style: `fill:${stroke}`,
                              d: `M${kept.map(i => at(i, high)).join('L')}L` +
                                 `${kept.reverse().map(i => at(i, low)).join('L')}Z`}));
    }
    let d = '', isOpen = false;
    for (let i = 0; i < x.length; ++i) {
      if (!inside(i)) { isOpen = false; continue; }
      d += `${isOpen ? 'L' : 'M'}${at(i, y)}`;
      isOpen = true;
      if (points)
        all.push(svg('circle', {cx: this.x(x[i]).toFixed(1), cy: this.y(y[i]).toFixed(1), r: 4,
                                style: `fill:${stroke}`}));
    }
    if (points !== 'only')
      all.unshift(svg('path', {d, class: 'gnomon-line', style: `stroke:${stroke}`,
                               'stroke-dasharray': dashed ? '6 4' : undefined}));
    return all;
  }

  #read(event) {
    if (!this.options) return;
    const box = this.canvas.getBoundingClientRect(), at = event.clientX - box.left;
    let best;
    for (const {x} of this.options.series)
      for (const value of x) {
        const distance = Math.abs(this.x(value) - at);
        if (best === undefined || distance < best.distance) best = {distance, value};
      }
    if (!best) return;
    const parts = this.options.series.map(({name, x, y}) => {
      const i = [...x].indexOf(best.value);
      return i < 0 ? '' : `${name ?? ''} ${number(y[i])}`.trim();
    });
    this.readout.textContent =
        `${this.options.xTitle ?? 'x'} ${number(best.value, 6)}: ${parts.filter(Boolean).join(', ')}`;
    this.canvas.querySelector('.gnomon-cursor')?.remove();
    const x = this.x(best.value);
    this.canvas.append(svg('line', {x1: x, x2: x, y1: margin.top, class: 'gnomon-cursor',
                                    y2: (this.options.height ?? 260) - margin.bottom}));
  }
}
