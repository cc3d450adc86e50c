// SVG elements, and the pen of view.drawing.
import {colourOf} from './colours.js';

const namespace = 'http://www.w3.org/2000/svg';

/** A new SVG element with attributes; undefined ones are left out. */
export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(namespace, name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== undefined) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

function look({colour = 'text', fill, width = 2, dashed = false, opacity} = {}, isShape = false) {
  return {
    style: `stroke:${colourOf(isShape && fill && colour === 'none' ? 'none' : colour)};` +
           `fill:${fill ? colourOf(fill) : 'none'}`,
    'stroke-width': width,
    'stroke-dasharray': dashed ? '6 4' : undefined,
    opacity,
  };
}

const round = value => Math.round(value * 100) / 100;

/** Draws into an SVG group in the units of its drawing. */
export class Pen {
  handles = [];
  #group;
  constructor(group) {
    this.#group = group;
  }
  line(x1, y1, x2, y2, style) {
    this.#group.append(svg('line', {x1: round(x1), y1: round(y1), x2: round(x2), y2: round(y2),
                                    'stroke-linecap': 'round', ...look(style)}));
  }
  arrow(x1, y1, x2, y2, style = {}) {
    this.line(x1, y1, x2, y2, style);
    const length = Math.hypot(x2 - x1, y2 - y1);
    if (length < 1e-6) return;
    const size = Math.min(style.head ?? 9, length), ux = (x2 - x1) / length, uy = (y2 - y1) / length;
    const corner = side => [x2 - size * (ux + side * 0.5 * uy), y2 - size * (uy - side * 0.5 * ux)];
    this.path([corner(1), [x2, y2], corner(-1)], {...style, fill: style.colour ?? 'text', dashed: false,
                                                   closed: true});
  }
  circle(x, y, r, style = {}) {
    this.#group.append(svg('circle', {cx: round(x), cy: round(y), r, ...look(style, true)}));
  }
  rect(x, y, w, h, style = {}) {
    this.#group.append(svg('rect', {x: round(x), y: round(y), width: round(w), height: round(h),
                                    rx: style.radius, ...look(style, true)}));
  }
  /** points: [[x, y], ...]; style.closed joins the last to the first. */
  path(points, style = {}) {
    const d = points.map(([x, y], i) => `${i ? 'L' : 'M'}${round(x)} ${round(y)}`).join('') +
              (style.closed ? 'Z' : '');
    this.#group.append(svg('path', {d, 'stroke-linejoin': 'round', ...look(style, true)}));
  }
  text(x, y, text, {colour = 'text', size = 14, anchor = 'middle', weight} = {}) {
    this.#group.append(svg('text', {x: round(x), y: round(y), 'text-anchor': anchor, 'font-size': size,
                                    'font-weight': weight, 'dominant-baseline': 'middle',
                                    style: `fill:${colourOf(colour)}`}, String(text)));
  }
  /** A point to drag; move(x, y) returns settings of controls. */
  handle(x, y, {label, move, colour = 'a', r = 9}) {
    const index = this.handles.push({move}) - 1;
    this.#group.append(svg('circle', {cx: round(x), cy: round(y), r, class: 'gnomon-handle',
                                      'data-handle': index, style: `fill:${colourOf(colour)}`},
                           svg('title', {}, label)));
  }
}
