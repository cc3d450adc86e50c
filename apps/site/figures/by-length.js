// Figure 7.2: the loss by context length, from two sessions of the lab.
import {named, options, title} from './shared/lab.js';

const kinds = ['none', 'sinusoidal', 'rotary', 'alibi', 't5', 'fire'];

function read(data, session) {
  const {seeds, steps, train_length: length, encodings} = data.lab[session];
  const shown = encodings.filter(one => kinds.includes(one.name));
  return {seeds, steps, length, encodings: shown.map(one => session === 'text'
    ? {name: one.name, lengths: one.times.map(times => times * length),
       rise: one.ratio.map(Math.log2)}
    : {name: one.name, lengths: one.rows.map(row => row.length),
       rise: one.rows.map(row => row.bits - one.rows[0].bits),
       half: one.rows.map(row => row.uncertainty)})};
}

export default {
  name: 'by-length',
  data: ['lab'],
  controls: [
    {name: 'kind', type: 'choice', value: 'rotary',
     options: options(kinds),
     label: {en: 'Encoding', zh: '编码'}},
    {name: 'session', type: 'choice', value: 'text',
     options: [
       {value: 'text', label: {en: 'novels, 5 seeds, 800 steps', zh: '小说，5 个种子，800 步'}},
       {value: 'notebook', label: {en: 'made-up text, 3 seeds, 600 steps', zh: '合成文本，3 个种子，600 步'}},
     ],
     label: {en: 'Session of the lab', zh: '实验'}},
  ],
  breaks: {session: 'notebook'},

  compute(gnomon, {kind, session}, data) {
    const run = read(data, session);
    const chosen = named(run.encodings, kind);
    if (!chosen) return {...run, chosen: null};
    const last = chosen.lengths.length - 1;
    return {...run, chosen, longest: chosen.lengths[last], rise: chosen.rise[last],
            half: chosen.half ? chosen.half[last] : null};
  },

  claim({chosen, rise, half}) {
    return chosen !== null && rise > 0.1 && (half === null || rise > half);
  },

  say({chosen, longest, rise, half, seeds, length}, state, language) {
    const name = title(state.kind, language);
    const zh = language === 'zh';
    if (!chosen) return zh ? `这次实验没有训练 ${name}。` : `This session did not train ${name}.`;
    const times = longest / length;
    const number = `${rise < 0 ? '−' : ''}${Math.abs(rise).toFixed(2)}`;
    if (zh) {
      const mean =
        `${name}：在训练长度的 ${times} 倍处，${seeds} 个种子的平均损失变化 ${number} 比特/字节。`;
      if (half === null) return `${mean}文档没有给出这次实验的区间。`;
      return mean + (rise > half ? `该长度处的区间 ±${half.toFixed(2)} 小于这一变化。`
        : `该长度处的区间 ±${half.toFixed(2)} 不小于这一变化，不能断定损失上升。`);
    }
    const mean = `${name}: at ${times} times the training length, the mean loss over ${seeds} ` +
      `seeds changes by ${number} bits per byte.`;
    if (half === null) return `${mean} The page of this session gives no interval.`;
    return mean + (rise > half ? ` The interval there, ±${half.toFixed(2)}, is smaller.`
      : ` The interval there, ±${half.toFixed(2)}, is not smaller: a rise is not shown.`);
  },

  draw(view, {encodings, length}, state, language) {
    const zh = language === 'zh';
    view.lines('loss', {
      title: zh ? '损失相对训练长度处的变化' : 'Change of the loss since the training length',
      xTitle: zh ? '上下文长度（字节）' : 'context length in bytes',
      yTitle: zh ? '比特/字节' : 'bits per byte',
      xLog: true,
      series: encodings.map(one => ({
        name: title(one.name, language), x: one.lengths, y: one.rise, points: true,
        dashed: one.name !== state.kind,
        ...(one.half && one.name === state.kind ? {
          low: one.rise.map((rise, i) => rise - one.half[i]),
          high: one.rise.map((rise, i) => rise + one.half[i])} : {}),
      })),
      marks: [{x: length, label: zh ? '训练长度' : 'training length'}],
    });
  },

  numbers(gnomon, data) {
    const {encodings} = data.lab.text;
    const ratio = (name, times) => {
      const one = named(encodings, name);
      return one.ratio[one.times.indexOf(times)].toFixed(3);
    };
    const rows = named(data.lab.notebook.encodings, 'rotary').rows;
    const {reproduced, counted} = data.lab.statements;
    return {
      reproduced: String(reproduced), counted: String(counted),
      rotary: ratio('rotary', 4), sinusoidal: ratio('sinusoidal', 4), alibi: ratio('alibi', 16),
      t5: ratio('t5', 16), fire: ratio('fire', 16), none: ratio('none', 16),
      rise: (rows[2].bits - rows[0].bits).toFixed(2), half: rows[2].uncertainty.toFixed(2),
    };
  },
};
