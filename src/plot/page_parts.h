// The style sheet and the script of a page.
#pragma once

#include <string_view>

namespace gnomon::plot::internal {

inline constexpr std::string_view style = R"css(
:root{color-scheme:light dark;--paper:#ffffff;--ink:#1b1e23;--muted:#5a616c;--line:#d8dce2;
--wash:#f4f6f8;--link:#0b5c9a;--best:#dcefe2}
@media(prefers-color-scheme:dark){:root{--paper:#16181c;--ink:#e3e6ea;--muted:#9ca4af;
--line:#363c45;--wash:#1f2329;--link:#7cbcf0;--best:#1d412c}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--paper);color:var(--ink);overflow-wrap:break-word;
font:1rem/1.6 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main,footer{max-width:62rem;margin:0 auto;padding:0 1rem}
main{padding-bottom:2rem}
h1{font-size:clamp(1.6rem,1.2rem + 2vw,2.3rem);line-height:1.2;margin:2.2rem 0 .8rem;
letter-spacing:-.01em}
h2{font-size:1.4rem;line-height:1.3;margin:2.8rem 0 .6rem;padding-top:.7rem;
border-top:1px solid var(--line)}
h3{font-size:1.1rem;margin:1.8rem 0 .4rem}
p,ul,pre{margin:.7rem 0;max-width:46rem}
.lead{font-size:1.15rem;line-height:1.5}
.note,figcaption,caption,footer{color:var(--muted);font-size:.9rem}
a{color:var(--link)}
nav{margin:1.2rem 0}
nav a{display:inline-block;margin-right:1.1rem}
code,pre{font:.9em/1.5 ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
code,pre{background:var(--wash);border-radius:4px}
code{padding:.1em .3em;overflow-wrap:anywhere}
pre{padding:.7rem .9rem;overflow-x:auto}
ul{padding-left:1.3rem}
.scroll{overflow-x:auto;margin:1rem 0}
table{border-collapse:collapse;font-size:.95rem;line-height:1.4}
caption{text-align:left;padding:0 0 .4rem;max-width:min(46rem,calc(100vw - 2rem))}
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
figcaption{margin-top:.3rem;max-width:46rem;color:var(--muted)}
.picture{width:100%;min-height:4rem;overflow-x:auto;overflow-y:hidden}
.picture.vega-embed{display:block}
.picture.vega-embed summary{opacity:.25}
details.fold{margin:1.2rem 0;border:1px solid var(--line);border-radius:6px;padding:0 1rem}
details.fold>summary{cursor:pointer;padding:.6rem 0;font-weight:600}
footer{padding-bottom:2rem}
footer p:first-child{border-top:1px solid var(--line);padding-top:.8rem;max-width:none}
@media(max-width:36rem){dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:.5rem}
th,td{padding:.35rem .5rem}td:not(.n){min-width:5.5rem}
.picture.vega-embed.has-actions{padding-right:0}.picture.vega-embed details{display:none}}
@media print{.picture.vega-embed details{display:none}details.fold{border:0;padding:0}}
)css";

// Draws every figure with the width of its container and the colours of the reader's setting,
// and redraws it if these change. A spec with a fixed shape has layout hints in
// usermeta.gnomon: height / width (`tall`), maximum width (`widest`), space of its axes
// (`margin`), and for small multiples their number (`count`) and minimum width (`narrowest`).
// The Vega-Lite width "container" does not support these specs. `letters`, the length of the
// longest name, gives the number of names per line of the legend.
inline constexpr std::string_view script = R"js(
(() => {
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
               titleFontSize: 13, labelLimit: 320, symbolBaseFillColor: muted,
               symbolBaseStrokeColor: muted, layout: {bottom: {direction: 'vertical'}},
               columns: Math.max(1, Math.floor((width - 70) / (7 * letters + 30)))},
      header: {labelColor: ink, titleColor: ink, labelFontSize: 12, titleFontSize: 13,
               titleFontWeight: 'normal'},
      title: {color: ink, fontSize: 13, anchor: 'start'},
      range: dark.matches ? {
        category: ['#6cb2f7', '#f59b42', '#3fb57e', '#c774e0', '#b5785a',
                   '#91eef8', '#6c76f0', '#ffa0b4', '#d8ea66', '#a0a7b2'],
        diverging: ['#9ccdfa', '#4c97d9', '#2b5f91', '#22374c', '#23262b',
                    '#4a3524', '#8f5522', '#d9822b', '#ffc27a'],
        heatmap: {scheme: 'viridis'}, ramp: {scheme: 'viridis', extent: [0.3, 1]}
      } : {
        category: ['#1467c8', '#d65f00', '#0a5c43', '#c04fb4', '#6b2f20',
                   '#12a0a8', '#4a2a8b', '#e0527a', '#7a8a1e', '#4b525d'],
        diverging: {scheme: 'blueorange'},
        heatmap: {scheme: 'viridis'}, ramp: {scheme: 'viridis', extent: [0, 0.85]}
      }
    };
  };
  const fit = (spec, width) => {
    delete spec.$schema;
    const own = (spec.usermeta || {}).gnomon || {};
    if (!own.tall) return spec;
    let room = width - own.margin;
    if (own.count) {
      const gap = spec.spacing ?? 20;
      const columns = Math.max(1, Math.min(own.count, Math.floor((room + gap) /
                                                                 (own.narrowest + gap))));
      spec.columns = columns;
      room = (room + gap) / columns - gap;
    }
    const one = spec.spec || spec;
    one.width = Math.max(40, Math.floor(Math.min(room, own.widest)));
    one.height = Math.max(1, Math.min(2000, Math.round(one.width * own.tall)));
    return spec;
  };
  const draw = async box => {
    const source = document.getElementById(box.id + '-spec').textContent;
    const width = box.clientWidth;
    const letters = ((JSON.parse(source).usermeta || {}).gnomon || {}).letters || 12;
    try {
      if (box.drawn) box.drawn.finalize();
      box.drawn = await vegaEmbed(box, fit(JSON.parse(source), width), {
        mode: 'vega-lite', config: config(width, letters),
        renderer: source.length > 20000 ? 'canvas' : 'svg',
        tooltip: {theme: dark.matches ? 'dark' : 'light'}, downloadFileName: box.id,
        actions: {export: true, source: false, compiled: false, editor: false}
      });
      box.width = width;
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
