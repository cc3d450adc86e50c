// Figure 7.7: the encodings that a use recommends, from the scores of the lab.
import {lengths, list, named, nearBest, ranked, taskTitle, title, unitOf} from './shared/lab.js';

const measured = ['translation', 'dialogue', 'classify', 'image', 'image-text',
                  'graph-distances', 'graph-classes'];
const commands = {
  text: 'gnomon lab --steps 800', checkpoint: 'gnomon lab --finetune DIR --extend yarn,dynamic-ntk',
  'graph-distances': 'gnomon lab --task graph', 'graph-classes': 'gnomon lab --task graph',
};

function scoresOf(data, use) {
  const {lab} = data;
  if (use === 'text') {
    const {single, text} = lab;
    const mean = bits => bits.reduce((sum, one) => sum + one, 0) / bits.length;
    const trained = single.encodings.filter(one => one.verdict !== 'excluded')
      .map(one => ({name: one.name, value: mean(one.bits)}));
    const longest = text.encodings[0].times[text.encodings[0].times.length - 1];
    return {
      lower: true, seeds: [single.encodings[0].bits.length, text.seeds],
      lengths: [`${single.length} bytes`, `${single.length * longest} bytes`],
      ranges: [trained, trained.map(one => ({name: one.name,
        value: one.value + Math.log2(named(text.encodings, one.name).ratio.at(-1))}))],
    };
  }
  if (use === 'checkpoint') {
    const {finetune} = lab, {lengths, models} = finetune, last = lengths.length - 1;
    const at = i => models.map(one => ({name: one.name, value: one.bits[i]}));
    return {lower: true, seeds: [finetune.seeds, finetune.seeds],
            lengths: [`${lengths[0]} bytes`, `${lengths[last]} bytes`], ranges: [at(0), at(last)]};
  }
  const {seeds, ranges} = named(lab.tasks, use);
  return {lower: false, seeds: [seeds, seeds], lengths: ranges.map(one => one.length),
          ranges: ranges.map(one => one.scores)};
}

function recommend(data, use, margin) {
  const {lower, seeds, lengths, ranges} = scoresOf(data, use);
  const within = lower ? margin / 100 : margin;
  const rows = ranges.map((scores, i) => ({
    length: lengths[i], seeds: seeds[i], scores: ranked(scores, lower),
    value: ranked(scores, lower)[0].value, good: nearBest(scores, lower, within)}));
  return {lower, rows, both: rows[0].good.filter(name => rows[1].good.includes(name))};
}

export default {
  name: 'choose',
  data: ['lab'],
  controls: [
    {name: 'use', type: 'choice', value: 'translation',
     options: [
       {value: 'text', label: {en: 'text, from scratch', zh: '文本，从头训练'}},
       ...measured.map(name => ({value: name, label: {
         en: name === 'translation' ? 'encoder and decoder: translation' : taskTitle(name, 'en'),
         zh: name === 'translation' ? '编码器-解码器：翻译' : taskTitle(name, 'zh')}})),
       {value: 'checkpoint', label: {en: 'a rotary checkpoint, longer', zh: '已训练的 RoPE 模型，加长'}},
       {value: 'speech', label: {en: 'speech', zh: '语音'}},
     ],
     label: {en: 'Use', zh: '用途'}},
    {name: 'margin', type: 'range', min: 0, max: 10, step: 0.5, value: 0,
     label: {en: 'Differences that do not matter to you', zh: '你不在意的差别'},
     unit: {en: 'points (hundredths of a bit)', zh: '分（或百分之一比特）'}},
  ],
  breaks: {use: 'graph-distances'},

  compute(gnomon, {use, margin}, data) {
    if (use === 'speech') {
      const names = ['wavlm', 'wav2vec2-bert', 'conformer'];
      return {rows: [], both: [], users: gnomon.encodings().filter(one => names.includes(one.name))
        .map(({name, users}) => ({name, users}))};
    }
    return recommend(data, use, margin);
  },

  claim({rows, both}) {
    return rows.length > 0 && both.length === 0;
  },

  say({rows, both}, {use}, language) {
    const zh = language === 'zh';
    if (rows.length === 0) {
      return zh ? '实验没有语音任务；表中是已发布模型使用的编码。'
        : 'The lab has no task of speech; the table lists what released models use.';
    }
    const command = commands[use] ?? `gnomon lab --task ${use}`;
    const seeds = Math.min(...rows.map(row => row.seeds));
    if (zh) {
      return (both.length === 0 ? '没有一种编码在两种长度上都在此差别之内。'
        : `两种长度上都在此差别之内：${list(both, 'zh')}。`) +
        (seeds < 3 ? '依据只有一个种子：' : `依据至少 ${seeds} 个种子：`) +
        `用 ${command} --seeds 3 重新测量。`;
    }
    return (both.length === 0 ? 'No encoding is within that difference of the best at both lengths.'
      : `Within that difference of the best at both lengths: ${list(both, 'en')}.`) +
      (seeds < 3 ? ' This rests on one seed;' : ` This rests on ${seeds} seeds or more;`) +
      ` repeat it with ${command} --seeds 3.`;
  },

  draw(view, {rows, users, lower}, {use}, language) {
    const zh = language === 'zh';
    if (rows.length === 0) {
      view.table('choice', {
        title: zh ? '已发布的模型' : 'Released models',
        head: zh ? ['编码', '使用者'] : ['encoding', 'used by'],
        rows: users.map(one => [one.name, one.users]),
      });
      return;
    }
    const unit = lower ? (zh ? ' 比特/字节' : ' bits per byte') : unitOf(use);
    const range = lower ? undefined : [0, 100];
    rows.forEach((row, i) => view.bars(i === 0 ? 'trained' : 'longer', {
      title: zh
        ? `${i === 0 ? '训练内' : '更长'}：${lengths(row.length, 'zh')}` +
          (lower ? '（比特/字节，越小越好）' : '')
        : `${i === 0 ? 'As trained' : 'Longer'}: ${row.length}` +
          (lower ? ' (bits per byte, less is better)' : ''),
      unit: lower ? '' : unitOf(use), range, span: 'half',
      bars: row.scores.map(one => ({name: title(one.name, language), value: one.value})),
    }));
    view.table('choice', {
      title: zh ? '在所选差别之内的编码' : 'Encodings within that difference of the best',
      head: zh ? ['长度', '编码', '最好', '种子'] : ['length', 'encodings', 'best', 'seeds'],
      rows: rows.map((row, i) => [
        zh ? `${i === 0 ? '训练内' : '更长'}：${lengths(row.length, 'zh')}`
          : `${i === 0 ? 'as trained' : 'longer'}: ${row.length}`,
        list(row.good, language), `${lower ? row.value.toFixed(2) : row.value}${unit}`,
        String(row.seeds)]),
    });
  },

  numbers(gnomon, data) {
    const bits = (name, i) => named(data.lab.finetune.models, name).bits[i].toFixed(3);
    return {
      own: bits('released', 0), linear: bits('linear', 0), longer: bits('released', 2),
      yarn: bits('yarn@tuned', 2),
    };
  },
};
