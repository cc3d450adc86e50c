// The page's side of the explorer's views: draws the data and says what it shows.
import {filled, words} from './explorer_text.js';
import {number} from './text.js';

function bounds(values) {
  let low = Infinity, high = -Infinity;
  for (const value of values)
    if (Number.isFinite(value)) {
      low = Math.min(low, value);
      high = Math.max(high, value);
    }
  return [low, high];
}

const draws = {
  rows(view, {values, rows, columns, frequencies}, state, info, say) {
    view.heatmap('rows', {values, rows, columns, scale: 'diverging', rowTitle: say.position,
                          columnTitle: frequencies ? say.angles : say.channel});
    return filled(say.saidRows, rows, columns, ...bounds(values).map(one => number(one)));
  },
  similarity(view, {values, rows}, state, info, say) {
    view.heatmap('similarity', {values, rows, columns: rows, scale: 'diverging', range: [-1, 1],
                                rowTitle: say.position, columnTitle: say.position, title: say.cosine});
    let near = 0;
    for (let i = 1; i < rows; ++i) near += values[i * rows + i - 1];
    return filled(say.saidSimilarity, number(near / (rows - 1)), number(values[rows - 1]));
  },
  bias(view, {values, rows, heads}, state, info, say) {
    const head = Math.min(state.head, heads - 1);
    const one = values.slice(head * rows * rows, (head + 1) * rows * rows);
    if (state.causal || info.causal)
      for (let i = 0; i < rows; ++i) one.fill(NaN, i * rows + i + 1, (i + 1) * rows);
    view.heatmap('bias', {values: one, rows, columns: rows, scale: 'diverging', rowTitle: say.query,
                          columnTitle: say.key, title: say.bias});
    return filled(say.saidBias, head, number(one[rows * rows - 1]), number(one[(rows - 1) * rows]));
  },
  decay(view, {distances, series: heads, isBias}, state, info, say) {
    const isOne = heads.every(({mean}) => mean.every((value, d) => value === heads[0].mean[d]));
    const series = isOne ? [{...heads[0], head: -1}] : heads;
    view.lines('decay', {
      series: series.map(({head, mean}) => ({name: head < 0 ? '' : `${say.head} ${head}`, x: distances,
                                             y: mean})),
      xTitle: say.distance, yTitle: heads[0].head < 0 ? say.product : isBias ? say.bias : say.score, height: 300});
    const first = series[0].mean, last = first.length - 1;
    let rising = 0;
    for (let d = 1; d <= last; ++d) if (first[d] > first[d - 1]) ++rising;
    return filled(say.saidDecay, number(first[0]), number(first[last]), last, rising, last);
  },
  attention(view, {words: labels, heads, values, without}, state, info, say) {
    const n = labels.length, head = Math.min(state.head, heads - 1);
    const part = all => all.slice(head * n * n, (head + 1) * n * n);
    const a = part(values), b = part(without);
    let moved = 0;
    for (let i = 0; i < a.length; ++i) moved += Math.abs(a[i] - b[i]);
    const hidden = one => one.map((value, i) =>
        (state.causal || info.causal) && i % n > Math.floor(i / n) ? NaN : value);
    const common = {rows: n, columns: n, rowLabels: labels, columnLabels: labels, range: [0, 1],
                    rowTitle: say.query, columnTitle: say.key, span: 'half'};
    view.heatmap('without', {...common, values: hidden(b), title: say.without});
    view.heatmap('with', {...common, values: hidden(a), title: say.with});
    return filled(say.saidAttention, head, number(100 * moved / 2 / n, 2));
  },
  check(view, {verdicts, isUsual}, state, info, say) {
    view.table('check', {head: [say.property, say.verdict, say.sentence],
                         rows: verdicts.map(one => [one.property, `${one.word} ${one.number}`.trim(),
                                                    one.sentence])});
    return filled(say.saidCheck, state.width, state.heads) + (isUsual ? '' : ` ${say.usualOnly}`);
  },
};

/** Draws a result of the worker and returns the sentence that describes it. */
export const drawView = (view, {view: name, data}, state, info, language) =>
    draws[name](view, data, state, info, words[language]);
