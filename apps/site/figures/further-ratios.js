// Chapter 6: the frequencies of each scaling, relative to the trained ones.
import {number} from '../web/text.js';
import {choices, scaledRotary, scalingOptions} from './shared/scalings.js';
import {steps} from './shared/vectors.js';

// The head of Phi-3-mini: 96 elements, base 10000, trained on 4096 tokens.
const size = 96, pairs = size / 2, trained = 4096;
const methods = ['linear', 'ntk', 'dynamic', 'yarn', 'longrope', 'llama3'];

export default {
  name: 'further-ratios',
  data: [],
  controls: [
    {name: 'method', type: 'choice', value: 'yarn', options: choices(methods),
     label: {en: 'Method', zh: '方法'}},
    {name: 'factor', type: 'range', min: 1, max: 32, step: 1, value: 8,
     label: {en: 'Factor in the config', zh: '配置中的倍数'}},
    {name: 'length', type: 'range', min: trained, max: 32 * trained, step: trained,
     value: 4 * trained, label: {en: 'Length of the text', zh: '文本长度'},
     unit: {en: 'tokens', zh: '个词元'}},
  ],
  breaks: {method: 'linear'},

  compute(gnomon, {factor, length}) {
    const at = (name, tokens) => scaledRotary(
        gnomon, name, {rotaryDim: size, trained, factor, length: tokens}).frequencies(tokens);
    const plain = at('none', length);
    const ratios = methods.map(name => at(name, length).map((f, i) => f / plain[i]));
    const follows = methods.map(name => {
      const short = at(name, trained), long = at(name, 32 * trained);
      return short.some((f, i) => f !== long[i]);
    });
    const unfinished = plain.findIndex(f => 2 * Math.PI / f > trained);
    return {ratios, follows, unfinished, multiple: length / trained};
  },

  // The fastest pair stays to 5 %, and the slowest is divided by at least 1.5.
  claim({ratios}, {method}) {
    const ratio = ratios[methods.indexOf(method)];
    return Math.abs(ratio[0] - 1) < 0.05 && ratio[pairs - 1] * 1.5 <= 1;
  },

  say({ratios, follows, multiple, unfinished}, {method, length}, language) {
    const ratio = ratios[methods.indexOf(method)], name = scalingOptions[method][language];
    const kept = ratio.reduce((sum, one) => sum + (one > 0.99 ? 1 : 0), 0);
    const isTrained = r => r * multiple < 1.01;
    const enough = ratio.slice(unfinished).reduce((sum, r) => sum + (isTrained(r) ? 1 : 0), 0);
    const [fastest, slowest] = [0, pairs - 1].map(i => number(1 / ratio[i]));
    const isFollowing = follows[methods.indexOf(method)];
    if (language === 'zh')
      return `${name}：最快的一对除以 ${fastest}，最慢的一对除以 ${slowest}，${pairs} 对中有 ${kept} 对不变。` +
             `训练中没有转完一圈的 ${pairs - unfinished} 对里，有 ${enough} 对在 ${length} 个词元内` +
             `不超出训练过的角度。频率${isFollowing ? '随文本长度变化' : '与文本长度无关'}。`;
    return `${name[0].toUpperCase()}${name.slice(1)}: the fastest pair is divided by ${fastest}, ` +
           `the slowest by ${slowest}; ` +
           `${kept} of ${pairs} pairs stay as they were. Of the ${pairs - unfinished} pairs that ` +
           `did not complete a turn in training, ${enough} keep to trained angles in ${length} ` +
           'tokens. ' +
           `The frequencies ${isFollowing ? 'follow' : 'do not depend on'} the length of the text.`;
  },

  draw(view, {ratios, unfinished}, {method, factor}, language) {
    const zh = language === 'zh';
    view.lines('ratios', {
      title: zh ? '频率 / 训练时的频率' : 'Frequency / trained frequency', height: 320, yLog: true,
      xTitle: zh ? '元素对（0 最快）' : 'pair (0: fastest)', yTitle: zh ? '比值' : 'ratio',
      yRange: [1 / 80, 2],
      series: methods.map((name, i) => ({
        name: scalingOptions[name][language], x: steps(pairs), y: ratios[i],
        dashed: name !== method,
      })),
      marks: [{x: unfinished, label: zh ? '右侧：不满一圈' : 'right: less than a turn'},
              {y: 1 / factor, label: zh ? '1 / 倍数' : '1 / factor'}],
    });
  },

  numbers(gnomon) {
    const {ratios} = this.compute(gnomon, {factor: 8, length: 4 * trained});
    const of = (name, pair) => number(1 / ratios[methods.indexOf(name)][pair]);
    const kept = ratios[methods.indexOf('yarn')].reduce((n, r) => n + (r > 0.99 ? 1 : 0), 0);
    return {
      linear: of('linear', 0), slowest: of('yarn', pairs - 1), kept: String(kept),
      dynamic: of('dynamic', pairs - 1), longFast: of('longrope', 0),
      longSlow: of('longrope', pairs - 1),
    };
  },
};
