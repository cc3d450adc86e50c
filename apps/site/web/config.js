// A config.json in the playground: what its layers do, and the wavelengths against a context length.
import {Client, Latest} from './client.js';
import {element} from './dom.js';
import {View} from './draw.js';
import {filled, words} from './explorer_text.js';
import {number} from './text.js';

// Keys of released config.json files that position depends on.
const examples = {
  'Llama 3.1 8B': {
    model_type: 'llama', hidden_size: 4096, num_attention_heads: 32, num_key_value_heads: 8,
    num_hidden_layers: 32, max_position_embeddings: 131072, rope_theta: 500000.0,
    rope_scaling: {rope_type: 'llama3', factor: 8.0, low_freq_factor: 1.0, high_freq_factor: 4.0,
                   original_max_position_embeddings: 8192}},
  'Qwen2.5 7B + YaRN': {
    model_type: 'qwen2', hidden_size: 3584, num_attention_heads: 28, num_key_value_heads: 4,
    num_hidden_layers: 28, max_position_embeddings: 32768, rope_theta: 1000000.0,
    rope_scaling: {type: 'yarn', factor: 4.0, original_max_position_embeddings: 32768}},
  'Gemma 3 4B (text)': {
    model_type: 'gemma3_text', hidden_size: 2560, num_attention_heads: 8, num_key_value_heads: 4,
    head_dim: 256, num_hidden_layers: 34, max_position_embeddings: 131072, rope_theta: 1000000.0,
    rope_local_base_freq: 10000.0, sliding_window: 1024, query_pre_attn_scalar: 256,
    rope_scaling: {rope_type: 'linear', factor: 8.0}},
  'BLOOM 560m': {model_type: 'bloom', hidden_size: 1024, n_head: 16, n_layer: 24, seq_length: 2048},
  'GPT-2': {model_type: 'gpt2', n_embd: 768, n_head: 12, n_layer: 12, n_positions: 1024},
};

const short = layers => layers.length > 6 ? `${layers.slice(0, 4).join(', ')}, … ${layers.at(-1)}` :
    layers.join(', ');

function drawGroups(view, description, say) {
  view.table('groups', {
    title: `${description.model_type}`,
    head: [say.group, say.kind, say.heads2, say.headDim, say.rotaryDim, say.base, say.scaling, say.window],
    rows: description.groups.map(g => [
      short(g.layers), g.kind, `${g.heads ?? '–'}`, `${g.head_dim ?? '–'}`, `${g.rotary_dim ?? '–'}`,
      g.base ? number(g.base, 6) : '–', g.scaling?.type ?? '–',
      g.window ? JSON.stringify(g.window) : '–'])});
}

function drawWaves(view, group, length, say) {
  const waves = group.inv_freq.map(f => f > 0 ? 2 * Math.PI / f : NaN);
  view.lines('waves', {
    series: [{name: say.wavelength, x: waves.map((_, i) => i), y: waves, points: true}], yLog: true,
    xTitle: say.pair, yTitle: say.wavelength, marks: [{y: length, label: `${say.context} ${length}`}],
    height: 300});
  return waves.filter(wave => !(wave <= length)).length;
}

/** Fills a section with a form for a config.json. */
export function mountConfig(box, {language, text, changed}) {
  const say = words[language];
  const area = element('textarea', {id: 'gnomon-config-text', rows: 12, spellcheck: 'false',
                                    maxlength: 1000000});
  const pairing = element('select', {id: 'gnomon-config-pairing'},
                          ...[['', say.none], ['halves', 'halves'], ['adjacent', 'adjacent']].map(
                              ([value, label]) => element('option', {value}, label)));
  const length = element('input', {type: 'range', id: 'gnomon-config-length', min: 10, max: 20, step: 0.25,
                                   value: 13});
  const shown = element('output', {for: 'gnomon-config-length'});
  const parts = element('div', {class: 'gnomon-parts'});
  const error = element('p', {class: 'gnomon-error', role: 'alert', hidden: true});
  const status = element('p', {class: 'gnomon-status', 'aria-live': 'polite'});
  const notes = element('ul', {class: 'gnomon-notes'});
  const view = new View(parts, {language});
  const tokens = () => Math.round(2 ** Number(length.value));

  const latest = new Latest(
      request => Client.shared().call('explorer', request),
      description => {
        error.hidden = true;
        drawGroups(view, description, say);
        const group = description.groups.find(g => g.inv_freq?.length);
        const slow = group ? drawWaves(view, group, tokens(), say) : 0;
        view.finish();
        notes.replaceChildren(...description.notes.map(one => element('li', {}, one)));
        status.textContent = filled(group ? say.saidConfig : say.saidPlain, description.model_type,
                                    description.layers, description.trained, slow,
                                    group?.inv_freq.length, tokens());
        box.dataset.state = 'ready';
        box.dataset.version = Number(box.dataset.version ?? 0) + 1;
      },
      failure => {
        error.textContent = failure.message;
        error.hidden = false;
        box.dataset.state = 'error';
        box.dataset.version = Number(box.dataset.version ?? 0) + 1;
      });
  const run = () => {
    shown.textContent = String(tokens());
    latest.set({config: area.value, length: tokens(), pairing: pairing.value || undefined});
  };
  const fill = config => {
    area.value = JSON.stringify(config, null, 1);
    changed(area.value);
    run();
  };
  const chosen = element('div', {class: 'gnomon-controls'}, element('span', {}, say.configHelp),
                         ...Object.entries(examples).map(([name, config]) => {
                           const one = element('button', {type: 'button', class: 'gnomon-button'}, name);
                           one.addEventListener('click', () => fill(config));
                           return one;
                         }));
  area.addEventListener('input', () => {
    changed(area.value);
    run();
  });
  length.addEventListener('input', run);
  pairing.addEventListener('change', run);
  const control = (name, label, ...inputs) => element('div', {class: `gnomon-control ${name}`}, label, ...inputs);
  const label = (id, content) => element('label', {for: id}, content);
  box.replaceChildren(
      element('div', {class: 'gnomon-controls'},
              control('gnomon-area', label('gnomon-config-text', say.config), area)),
      chosen,
      element('div', {class: 'gnomon-controls'},
              control('gnomon-range', label('gnomon-config-length', say.length), length, shown),
              control('', label('gnomon-config-pairing', say.pairing), pairing)),
      parts, notes, error, status);
  area.value = text ?? JSON.stringify(examples['Llama 3.1 8B'], null, 1);
  run();
}
