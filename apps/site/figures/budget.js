// Figure 7.4: the order of encodings if training went on, from the measured fall of the loss.
import {list, title} from './shared/lab.js';

const mean = values => values.reduce((sum, one) => sum + one, 0) / values.length;
const after = (one, times) => one.loss - one.fall * Math.log2(times);
const order = (encodings, times) =>
  [...encodings].sort((a, b) => after(a, times) - after(b, times)).map(one => one.name);

function read(data, set) {
  return data.lab.single.encodings.filter(one => set === 'all' || one.verdict !== 'excluded')
    .map(one => ({name: one.name, loss: mean(one.bits), fall: one.fall}));
}

export default {
  name: 'budget',
  data: ['lab'],
  controls: [
    {name: 'times', type: 'range', min: 1, max: 2, step: 0.05, value: 2,
     label: {en: 'Training steps', zh: '训练步数'}, unit: {en: 'times 800', zh: '× 800'}},
    {name: 'set', type: 'choice', value: 'all',
     options: [
       {value: 'all', label: {en: 'all six encodings', zh: '全部六种编码'}},
       {value: 'ranked', label: {en: 'those that the lab ranks', zh: '实验给出名次的编码'}},
     ],
     label: {en: 'Encodings', zh: '编码'}},
  ],
  breaks: {set: 'ranked'},

  compute(gnomon, {times, set}, data) {
    const encodings = read(data, set);
    const grid = [1, 1.25, 1.5, 1.75, 2];
    return {
      steps: data.lab.single.steps, grid,
      curves: encodings.map(one => ({name: one.name, y: grid.map(at => after(one, at))})),
      measured: order(encodings, 1), later: order(encodings, times),
    };
  },

  claim({measured, later}) {
    return measured.some((name, i) => name !== later[i]);
  },

  say({measured, later, steps}, {times}, language) {
    const at = Math.round(times * steps);
    const same = measured.every((name, i) => name === later[i]);
    if (language === 'zh') {
      return `${steps} 步时实测的次序：${list(measured, 'zh')}。` + (same
        ? `按此推算，到 ${at} 步时次序不变。` : `按此推算，到 ${at} 步时：${list(later, 'zh')}。`);
    }
    return `Measured order after ${steps} steps: ${list(measured, 'en')}. ` + (same
      ? `The estimate for ${at} steps has the same order.`
      : `The estimate for ${at} steps: ${list(later, 'en')}.`);
  },

  draw(view, {curves, grid, steps}, {times}, language) {
    const zh = language === 'zh';
    view.lines('losses', {
      title: zh ? `训练长度处的损失：实测（${steps} 步）与推算`
        : `Loss at the training length: measured (${steps} steps) and estimated`,
      xTitle: zh ? '训练步数' : 'training steps', yTitle: zh ? '比特/字节' : 'bits per byte',
      series: curves.map(one => ({name: title(one.name, language), x: grid.map(at => at * steps),
                                  y: one.y, dashed: true})),
      marks: [{x: times * steps, label: zh ? '次序取自此处' : 'order taken here'}],
    });
  },

  numbers(gnomon, data) {
    const fall = name => data.lab.single.encodings.find(one => one.name === name).fall.toFixed(2);
    return {learned: fall('learned'), t5: fall('t5'), sinusoidal: fall('sinusoidal')};
  },
};
