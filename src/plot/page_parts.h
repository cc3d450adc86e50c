// The style sheet and the script of a page.
#pragma once

#include <string_view>

namespace gnomon::plot::internal {

inline constexpr std::string_view style = R"css(
:root{color-scheme:light dark;--paper:#ffffff;--ink:#1b1e23;--muted:#5a616c;--line:#d8dce2;
--wash:#f4f6f8;--link:#0b5c9a;--best:#dcefe2;--shade:#1b1e2366}
@media(prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#e3e6ea;--muted:#9ca4af;
--line:#363c45;--wash:#1f2329;--link:#7cbcf0;--best:#1d412c;--shade:#e3e6ea66}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);overflow-wrap:break-word;
font:1rem/1.6 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main,footer{max-width:78rem;margin:0 auto;padding:0 1rem}
main{padding-bottom:2rem}
h1{font-size:clamp(1.6rem,1.2rem + 2vw,2.3rem);line-height:1.2;margin:2.2rem 0 .8rem;
letter-spacing:-.01em}
h2{font-size:1.4rem;line-height:1.3;margin:2.8rem 0 .6rem;padding-top:.7rem;
border-top:1px solid var(--line)}
h3{font-size:1.1rem;margin:1.8rem 0 .4rem}
p,ul,pre{margin:.7rem 0;max-width:39em}
pre{max-width:100%}
.lead{font-size:1.15rem;line-height:1.5}
.note,figcaption,caption,footer{color:var(--muted);font-size:.9rem}
a{color:var(--link)}
nav{margin:1.2rem 0}
nav a{display:inline-block;margin-right:1.1rem}
code,pre{font:.9em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
code,pre{background:var(--wash);border-radius:4px}
code{padding:.1em .3em;overflow-wrap:anywhere}
pre{padding:.7rem .9rem;overflow-x:auto;width:fit-content}
pre.wrapped{white-space:pre-wrap;overflow-wrap:anywhere;max-width:min(100%,60rem)}
ul{padding-left:1.3rem}
.scroll{overflow-x:auto;margin:1rem 0;background:
linear-gradient(to right,var(--paper) 40%,transparent) left/3rem 100% no-repeat local,
linear-gradient(to left,var(--paper) 40%,transparent) right/3rem 100% no-repeat local,
linear-gradient(to right,var(--shade),transparent) left/1rem 100% no-repeat scroll,
linear-gradient(to left,var(--shade),transparent) right/1rem 100% no-repeat scroll}
table{border-collapse:collapse;font-size:.95rem;line-height:1.4}
caption{text-align:left;padding:0 0 .4rem;max-width:min(39em,calc(100vw - 2rem))}
th,td{padding:.35rem .75rem;border-bottom:1px solid var(--line);text-align:left;
vertical-align:top}
th{border-bottom-color:var(--muted);font-weight:600;vertical-align:bottom}
td:first-child,th:first-child{padding-left:.35rem}
.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
.best{font-weight:700;background:var(--best)}
.muted{color:var(--muted)}
dl{display:grid;grid-template-columns:max-content minmax(0,1fr);gap:.3rem 1.2rem;margin:1rem 0}
dt{color:var(--muted)}
dd{margin:0;overflow-wrap:anywhere}
figure{margin:1.6rem 0}
figure h3{margin:0 0 .5rem}
figcaption{margin-top:.3rem;max-width:39em;color:var(--muted)}
dd{max-width:39em}
.picture{width:100%;min-height:4rem;overflow-x:auto;overflow-y:hidden}
.picture.vega-embed{display:block}
.picture.vega-embed summary{opacity:.25}
.names{border:1px solid var(--line);border-radius:6px;margin:.6rem 0;padding:.5rem .8rem;
min-width:0}
.names legend{color:var(--muted);font-size:.9rem;padding:0 .3rem}
.names input[type=search],.names button{font:inherit;font-size:.9rem;color:var(--ink);
background:var(--wash);border:1px solid var(--muted);border-radius:4px;padding:.15rem .5rem;
margin:0 .4rem .4rem 0;max-width:100%}
.names div{display:grid;grid-template-columns:repeat(auto-fill,minmax(11rem,1fr));gap:0 .8rem;
max-height:15rem;overflow-y:auto}
.names label{display:flex;align-items:center;gap:.4rem;font-size:.9rem;border-radius:4px;
overflow-wrap:anywhere;line-height:1.3;padding:.12rem 0}
.names label.focus{background:var(--wash)}
.names label[hidden]{display:none}
.names input{flex:none;margin:0}
.names svg{flex:none;width:1rem;height:1rem}
details.numbers{margin-top:.4rem;font-size:.9rem}
details.numbers table{font-size:.9em}
details.numbers td:first-child{white-space:nowrap}
details.numbers>summary{cursor:pointer;color:var(--muted)}
details.fold{margin:1.2rem 0;border:1px solid var(--line);border-radius:6px;padding:0 1rem}
details.fold>summary{cursor:pointer;padding:.6rem 0;font-weight:600}
footer{padding-bottom:2rem}
footer p:first-child{border-top:1px solid var(--line);padding-top:.8rem;max-width:none}
@media(max-width:36rem){dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.5rem}
th,td{padding:.35rem .4rem}td:not(.n){min-width:5.5rem}.scroll table{font-size:.85rem}
.scroll td:first-child,.scroll th:first-child,caption{position:sticky;left:0}
.scroll td:first-child:not(.best),.scroll th:first-child{background:var(--paper)}
.scroll td:first-child{max-width:7rem}
.picture.vega-embed.has-actions{padding-right:0}.picture.vega-embed details{display:none}}
@media print{.picture.vega-embed details,.names button,.names input{display:none}
details.fold{border:0;padding:0}}
)css";

// Colours of charts, as config.range of a Vega-Lite spec: names, values around 0, values of
// cells, values of lines.
inline constexpr std::string_view dark_colours = R"({
  "category": ["#6cb2f7", "#f59b42", "#3fb57e", "#c774e0", "#b5785a",
               "#91eef8", "#6c76f0", "#ffa0b4", "#d8ea66", "#a0a7b2"],
  "diverging": ["#9ccdfa", "#4c97d9", "#2b5f91", "#22374c", "#23262b",
                "#4a3524", "#8f5522", "#d9822b", "#ffc27a"],
  "heatmap": {"scheme": "viridis"},
  "ramp": ["#a98bf5", "#6cb2f7", "#45c2b5", "#c9d65c", "#f59b42"]
})";
inline constexpr std::string_view light_colours = R"({
  "category": ["#1467c8", "#d65f00", "#0a5c43", "#c04fb4", "#6b2f20",
               "#12a0a8", "#4a2a8b", "#e0527a", "#7a8a1e", "#4b525d"],
  "diverging": {"scheme": "blueorange"},
  "heatmap": {"scheme": "viridis"},
  "ramp": ["#4a2a8b", "#1467c8", "#0b8075", "#7a8a1e", "#d65f00"]
})";

// Draws every figure with the width of its container and the colours of the reader's setting,
// and redraws it if these change. A spec with a fixed shape has layout hints in
// usermeta.gnomon: height / width (`tall`), maximum width (`widest`), space of its axes
// (`margin`), and for small multiples their number (`count`) and minimum width (`narrowest`).
// The Vega-Lite width "container" does not support these specs. `letters`, the length of the
// longest name, gives the number of names per line of the legend. `selectable` are names in a
// list below the chart: the reader selects those that are drawn (the parameter `shown` of the
// spec), and the name under the pointer is in focus (the parameter `focus`).
// `ast`: expressions are interpreted, so that the page needs no eval().
// `dark_colours` and `light_colours` precede it.
inline constexpr std::string_view script = R"js(
  const dark = matchMedia('(prefers-color-scheme: dark)');
  const boxes = [...document.querySelectorAll('.picture')];
  const config = (width, letters) => {
    const [ink, muted, line] = dark.matches ? ['#e3e6ea', '#9ca4af', '#363c45']
                                            : ['#1b1e23', '#5a616c', '#d8dce2'];
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: null, font, view: {stroke: null}, text: {color: ink, fontSize: 12},
      rule: {color: muted},
      axis: {labelColor: muted, titleColor: ink, gridColor: line, domainColor: muted,
             tickColor: muted, titleFontWeight: 'normal', labelFontSize: 12, titleFontSize: 13},
      legend: {labelColor: ink, titleColor: ink, titleFontWeight: 'normal', labelFontSize: 12,
               titleFontSize: 13, labelLimit: Math.max(60, Math.min(320, width - 70)),
               symbolBaseFillColor: muted, symbolBaseStrokeColor: muted,
               layout: {bottom: {direction: 'vertical'}},
               columns: Math.max(1, Math.floor((width - 70) / (7 * letters + 30)))},
      header: {labelColor: ink, titleColor: ink, labelFontSize: 12, titleFontSize: 13,
               titleFontWeight: 'normal'},
      title: {color: ink, fontSize: 13, anchor: 'start'},
      range: dark.matches ? dark_colours : light_colours
    };
  };
  const fit = (spec, width) => {
    delete spec.$schema;
    for (const {encoding} of spec.layer || []) {
      const legend = encoding && encoding.strokeDash && encoding.strokeDash.legend;
      if (legend) legend.columns = width < 500 ? 1 : 2;
    }
    const own = (spec.usermeta || {}).gnomon || {};
    if (!own.tall) return spec;
    let space = width - own.margin;
    if (own.count) {
      const gap = spec.spacing ?? 20;
      const columns = Math.max(1, Math.min(own.count, Math.floor((space + gap) /
                                                                 (own.narrowest + gap))));
      spec.columns = columns;
      space = (space + gap) / columns - gap;
    }
    const one = spec.spec || spec;
    one.width = Math.max(40, Math.floor(Math.min(space, own.widest)));
    one.height = Math.max(1, Math.min(2000, Math.round(one.width * own.tall)));
    return spec;
  };
  const make = (tag, fields, ...inside) => {
    const element = Object.assign(document.createElement(tag), fields);
    element.append(...inside);
    return element;
  };
  // The default symbols of Vega, in a box from -8 to 8.
  const symbols = {
    circle: 'M5,0A5,5 0 1 1 -5,0A5,5 0 1 1 5,0', square: 'M-4.5,-4.5h9v9h-9Z',
    cross: 'M-6,-2h4v-4h4v4h4v4h-4v4h-4v-4h-4Z', diamond: 'M0,-7L5,0L0,7L-5,0Z',
    'triangle-up': 'M0,-5.5L6,5H-6Z', 'triangle-down': 'M0,5.5L6,-5H-6Z',
    'triangle-right': 'M5.5,0L-5,6V-6Z', 'triangle-left': 'M-5.5,0L5,6V-6Z'
  };
  const signal = (box, name, value) =>
      box.drawn && box.drawn.view.signal(name, value).runAsync();
  const focus = (box, name) => {
    if (name && !box.shown.has(name)) name = '';
    if (box.focused === name) return;
    box.focused = name;
    for (const [other, label] of box.labels) label.classList.toggle('focus', other === name);
    signal(box, 'focus', name);
  };
  const show = box => {
    for (const [name, label] of box.labels) label.firstChild.checked = box.shown.has(name);
    signal(box, 'shown', [...box.labels.keys()].filter(name => box.shown.has(name)));
  };
  const list = (box, names, shown) => {
    box.shown = new Set(shown);
    box.labels = new Map();
    const found = () => [...box.labels].filter(([name, label]) => !label.hidden);
    const search = make('input', {type: 'search', placeholder: 'search'});
    search.setAttribute('aria-label', 'search names');
    search.oninput = () => {
      for (const [name, label] of box.labels)
        label.hidden = !name.toLowerCase().includes(search.value.toLowerCase());
    };
    const button = (text, change) => make('button', {type: 'button', textContent: text,
      onclick: () => { for (const [name] of found()) change(name); show(box); }});
    const labels = make('div', {});
    for (const name of names) {
      const input = make('input', {type: 'checkbox', onchange: () => {
        input.checked ? box.shown.add(name) : box.shown.delete(name);
        show(box);
      }});
      const svg = make('i', {innerHTML: '<svg viewBox="-8 -8 16 16"><path/></svg>'}).firstChild;
      const label = make('label', {onmouseenter: () => focus(box, name),
                                   onmouseleave: () => focus(box, '')}, input, svg, name);
      box.labels.set(name, label);
      labels.append(label);
    }
    box.after(make('fieldset', {className: 'names'},
      make('legend', {textContent: 'Names that are drawn'}), search,
      button('all', name => box.shown.add(name)),
      button('none', name => box.shown.delete(name)), labels));
  };
  // Prepares the spec before it is drawn: the list replaces the legend of names.
  const select = (box, spec) => {
    const names = ((spec.usermeta || {}).gnomon || {}).selectable;
    if (!names) return spec;
    const [shown, focused] = spec.params;
    if (!box.labels) list(box, names, shown.value);
    shown.value = names.filter(name => box.shown.has(name));
    box.focused = focused.value;
    for (const {encoding} of spec.layer)
      for (const channel of ['color', 'shape'])
        if (encoding[channel]) encoding[channel].legend = null;
    return spec;
  };
  const mark = box => {
    const view = box.drawn.view, colour = view.scale('color'), shape = view.scale('shape');
    for (const [name, label] of box.labels) {
      const path = label.querySelector('path');
      path.setAttribute('fill', colour(name));
      path.setAttribute('d', symbols[shape ? shape(name) : 'circle']);
      label.firstChild.style.accentColor = colour(name);
    }
    view.addEventListener('mousemove', (event, item) =>
      focus(box, (item && item.datum && item.datum.colour) || ''));
    view.addEventListener('mouseout', () => focus(box, ''));
    show(box);
  };
  const draw = async box => {
    const source = document.getElementById(box.id + '-spec').textContent;
    const width = box.clientWidth;
    const letters = ((JSON.parse(source).usermeta || {}).gnomon || {}).letters || 12;
    try {
      if (box.drawn) box.drawn.finalize();
      box.drawn = await vegaEmbed(box, select(box, fit(JSON.parse(source), width)), {
        mode: 'vega-lite', ast: true, config: config(width, letters),
        renderer: source.length > 20000 ? 'canvas' : 'svg',
        tooltip: {theme: dark.matches ? 'dark' : 'light'}, downloadFileName: box.id,
        actions: {export: true, source: false, compiled: false, editor: false}
      });
      box.width = width;
      if (box.labels) mark(box);
    } catch (error) {
      box.textContent = 'This picture could not be drawn: ' + error.message;
    }
  };
  const shown = box => !box.closest('details:not([open])');
  const all = async () => { for (const box of boxes) if (shown(box)) await draw(box); };
  for (const fold of document.querySelectorAll('details.fold'))
    fold.addEventListener('toggle', () => {
      for (const box of fold.querySelectorAll('.picture'))
        if (fold.open && !box.drawn) draw(box);
    });
  let waiting;
  addEventListener('resize', () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      for (const box of boxes) if (box.drawn && box.clientWidth !== box.width) draw(box);
    }, 200);
  });
  dark.addEventListener('change', all);
  all();
})();
)js";

}  // namespace gnomon::plot::internal
