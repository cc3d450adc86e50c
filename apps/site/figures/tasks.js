// Figure 7.5: scores of the lab's tasks, and the best encoding of each.
import {
  lengths, list, named, nearBest, ranked, taskOptions, taskTitle, title, unitOf,
} from './shared/lab.js';

const names = ['translation', 'dialogue', 'classify', 'image', 'image-text', 'graph-distances',
               'graph-classes', 'copy', 'addition', 'flipflop-1', 'flipflop-2'];
const words = ['translation', 'dialogue', 'classify'];

/** The range of a task: [as trained, longest]; a task with one range has it at both. */
const rangeOf = (task, longest) => {
  const [trained, beyond] = task.ranges;
  return longest ? beyond ?? trained : trained ?? beyond;
};

export default {
  name: 'tasks',
  data: ['lab'],
  controls: [
    {name: 'task', type: 'choice', options: taskOptions(names), value: 'translation',
     label: {en: 'Task of the bars', zh: '条形图的任务'}},
    {name: 'longest', type: 'toggle', value: false,
     label: {en: 'At the longest tests', zh: '最长的测试'}},
    {name: 'set', type: 'choice', value: 'all',
     options: [{value: 'all', label: {en: 'all tasks', zh: '全部任务'}},
               {value: 'words', label: {en: 'sentences and dialogues', zh: '句子与对话'}}],
     label: {en: 'Tasks of the table', zh: '表中的任务'}},
  ],
  breaks: {set: 'words', longest: true},

  compute(gnomon, {task, longest, set}, data) {
    const {tasks} = data.lab;
    const rows = (set === 'words' ? words : names).map(name => {
      const one = named(tasks, name), range = rangeOf(one, longest);
      return {name, seeds: one.seeds, length: range.length, best: nearBest(range.scores, false, 0),
              value: ranked(range.scores)[0].value};
    });
    const one = named(tasks, task), range = rangeOf(one, longest);
    return {rows, seeds: one.seeds, length: range.length, chance: range.chance,
            scores: ranked(range.scores)};
  },

  claim({rows}) {
    const everywhere = rows[0].best.filter(name => rows.every(row => row.best.includes(name)));
    return everywhere.length === 0;
  },

  say({rows, scores, chance, seeds}, {task}, language) {
    const everywhere = rows[0].best.filter(name => rows.every(row => row.best.includes(name)));
    const top = scores[0];
    if (language === 'zh') {
      const first = everywhere.length === 0 ? '没有一种编码在表中的每个任务里都最好。'
        : `在表中的每个任务里，${list(everywhere, 'zh')} 都最好。`;
      return `${first}${taskTitle(task, 'zh')}：${title(top.name, 'zh')} 得 ${top.value}，` +
        `随机猜测得 ${chance}，${seeds} 个种子。`;
    }
    const first = everywhere.length === 0 ? 'No encoding is the best at every task of the table.'
      : `${list(everywhere, 'en')}: the best at every task of the table.`;
    return `${first} ${taskTitle(task, 'en')}: ${title(top.name, 'en')} scores ${top.value}, ` +
      `chance ${chance}; ${seeds === 1 ? 'one seed' : `${seeds} seeds`}.`;
  },

  draw(view, {rows, scores, length, chance}, {task}, language) {
    const zh = language === 'zh';
    view.bars('scores', {
      title: zh ? `${taskTitle(task, 'zh')}：${lengths(length, 'zh')}`
        : `${taskTitle(task, 'en')}, ${length}`,
      unit: unitOf(task), range: [0, 100],
      bars: [
        ...scores.map(one => ({name: title(one.name, language), value: one.value,
                               ...(one.low === undefined ? {} : {low: one.low, high: one.high})})),
        {name: zh ? '随机猜测' : 'by chance', value: chance},
      ],
    });
    view.table('best', {
      title: zh ? '每个任务中最好的编码' : 'The best encoding of each task',
      head: zh ? ['任务', '最好', '分数', '种子'] : ['task', 'best', 'score', 'seeds'],
      rows: rows.map(row => [taskTitle(row.name, language), list(row.best, language),
                             String(row.value), String(row.seeds)]),
    });
  },

  numbers(gnomon, data) {
    const score = (task, longest, name) =>
      String(named(rangeOf(named(data.lab.tasks, task), longest).scores, name).value);
    return {
      translation: score('translation', false, 'none'), image: score('image', false, 'none'),
      classify: score('classify', false, 'none'), caption: score('image-text', false, 'none'),
      onesided: score('image-text', false, 'rotary-axial@text'),
      dialogue: score('dialogue', true, 'alibi'), path: score('flipflop-1', false, 'path'),
      fox: score('flipflop-1', false, 'fox'), rotary: score('flipflop-1', false, 'rotary'),
      graphormer: score('graph-distances', true, 'graphormer'),
      laplacian: score('graph-classes', true, 'laplacian'),
      copy: score('copy', false, 'alibi'),
    };
  },
};
