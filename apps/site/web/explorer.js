// The explorer: an encoding with its fields and views; the playground: two of them, and a config.json.
import {Client, Latest} from './client.js';
import {mountConfig} from './config.js';
import {element} from './dom.js';
import {View} from './draw.js';
import {drawView} from './explorer_views.js';
import {words} from './explorer_text.js';
import {showFields} from './fields.js';

let count = 0;

function labelled(label, input) {
  input.id ||= `gnomon-input-${count++}`;
  return element('div', {class: 'gnomon-control'}, element('label', {for: input.id}, label), input);
}

function select(options, value, changed) {
  const input = element('select', {}, ...options.map(
      ([one, label]) => element('option', {value: one}, label)));
  input.value = value;
  input.addEventListener('change', () => changed(input.value));
  return input;
}

/** The settings of an explorer that a link keeps. */
const usualState = name => ({name, spec: {}, width: 64, heads: 4, length: 64, tokens: 64, head: 0,
                             view: undefined, causal: true, text: undefined});

export class Explorer {
  #client = Client.shared();

  /** names: the encodings that the reader can choose from; one: a page of its own. */
  constructor(box, {language, list, state, names, changed = () => {}}) {
    this.box = box;
    this.language = language;
    this.say = words[language];
    this.list = list;
    this.state = {...usualState(names[0]), ...state};
    this.changed = changed;
    const parts = element('div', {class: 'gnomon-parts', role: 'group', 'aria-label': this.say.picture});
    this.controls = element('form', {class: 'gnomon-controls'});
    this.controls.addEventListener('submit', event => event.preventDefault());
    this.fields = element('div', {class: 'gnomon-fields'});
    this.error = element('p', {class: 'gnomon-error', role: 'alert', hidden: true});
    this.status = element('p', {class: 'gnomon-status', 'aria-live': 'polite'});
    const details = element('details', {class: 'gnomon-spec', open: names.length === 1},
                            element('summary', {}, this.say.fields), this.fields);
    this.view = new View(parts, {language});
    this.latest = new Latest(request => this.#client.call('explorer', request),
                             result => this.#show(result), error => this.#fail(error));
    box.replaceChildren(this.controls, parts, this.error, this.status, details);
    this.names = names;
    this.#showControls();
    this.#run();
  }

  get info() {
    return this.list.find(one => one.name === this.state.name);
  }

  set(settings) {
    Object.assign(this.state, settings);
    this.changed(this.state);
    this.#run();
  }

  #number(name, min, max, step) {
    const input = element('input', {type: 'range', min, max, step, value: this.state[name]});
    const shown = element('output', {}, String(this.state[name]));
    input.addEventListener('input', () => {
      shown.textContent = input.value;
      this.set({[name]: Number(input.value), spec: name === 'heads' ? {} : this.state.spec});
    });
    const row = labelled(this.say[name], input);
    row.classList.add('gnomon-range');
    row.append(shown);
    input.dataset.control = name;
    return row;
  }

  #showControls() {
    const {state, info, say} = this, rows = [];
    if (!info.views.includes(state.view)) state.view = info.views[0];
    if (this.names.length > 1)
      rows.push(labelled(say.encoding, select(
          this.names.map(name => [name, this.list.find(one => one.name === name).title]), state.name,
          name => {
            Object.assign(state, {name, spec: {}, view: undefined, head: 0});
            this.#showControls();
            this.set({});
          })));
    rows.push(labelled(say.view, select(info.views.map(view => [view, say.views[view]]), state.view,
                                        view => {
                                          this.set({view});
                                          this.#showControls();
                                        })));
    if (state.view === 'attention') {
      const text = element('input', {type: 'text', maxlength: 200, value: state.text ?? say.example,
                                     spellcheck: 'false'});
      text.addEventListener('input', () => this.set({text: text.value}));
      const row = labelled(say.text, text);
      row.classList.add('gnomon-text');
      rows.push(row);
    } else if (state.view !== 'check') {
      rows.push(this.#number('tokens', 8, 128, 1));
    }
    if (['bias', 'attention'].includes(state.view)) rows.push(this.#number('head', 0, state.heads - 1, 1));
    if (state.view === 'attention' && !info.causal) {
      const mask = element('input', {type: 'checkbox'});
      mask.checked = state.causal;
      mask.addEventListener('change', () => this.set({causal: mask.checked}));
      const row = labelled(say.causal, mask);
      row.classList.add('gnomon-toggle');
      rows.push(row);
    }
    this.controls.replaceChildren(...rows);
  }

  #run() {
    const {name, spec, width, heads, length, tokens, view, causal} = this.state;
    this.latest.set({name, spec, shape: {width, heads, length}, tokens, view,
                     causal: causal || this.info.causal,
                     text: this.state.text ?? this.say.example});
  }

  #show(result) {
    if (result.view !== this.state.view) return;
    this.error.hidden = true;
    this.status.textContent = drawView(this.view, result, this.state, this.info, this.language);
    this.view.finish();
    showFields(this.fields, result.spec, self.GNOMON_DATA.fields, (field, value) => {
      this.set({spec: {...this.state.spec, [field]: value}});
    });
    this.#done('ready');
  }

  #fail(error) {
    this.error.textContent = error.message;
    this.error.hidden = false;
    this.#done('error');
  }

  #done(state) {
    this.box.dataset.state = state;
    this.box.dataset.version = Number(this.box.dataset.version ?? 0) + 1;
  }
}

/** A page of one encoding: `<div class="gnomon-explorer" data-encoding="alibi">`. */
export async function mountExplorer(box) {
  const language = box.dataset.language ?? 'en';
  const list = await Client.shared().call('explorer', {list: true});
  return new Explorer(box, {language, list, names: [box.dataset.encoding]});
}

const fromLink = () => {
  try {
    return JSON.parse(decodeURIComponent(location.hash.slice(1)));
  } catch {
    return {};
  }
};

/** The playground: two encodings side by side, and a config.json; the address keeps the state. */
export async function mountPlayground(box) {
  const language = box.dataset.language ?? 'en', say = words[language];
  const list = await Client.shared().call('explorer', {list: true}), names = list.map(one => one.name);
  const linked = fromLink();
  const state = {a: linked.a ?? {name: 'rotary'}, b: linked.b ?? {name: 'alibi'},
                 two: linked.two ?? false, config: linked.config};
  const keep = () => history.replaceState(null, '', `#${encodeURIComponent(JSON.stringify(state))}`);
  const left = element('section', {class: 'gnomon-explorer', 'aria-label': say.first});
  const right = element('section', {class: 'gnomon-explorer', 'aria-label': say.second});
  const pair = element('div', {class: 'gnomon-pair'}, left);
  const two = element('input', {type: 'checkbox'});
  two.checked = state.two;
  const copy = element('button', {type: 'button', class: 'gnomon-button'}, say.copyLink);
  copy.addEventListener('click', async () => {
    keep();
    try {
      await navigator.clipboard.writeText(location.href);
      copy.textContent = say.copied;
    } catch {
      copy.textContent = say.inAddress;
    }
  });
  const toggle = labelled(say.two, two);
  toggle.classList.add('gnomon-toggle');
  const bar = element('div', {class: 'gnomon-controls'}, toggle, copy);
  const config = element('section', {class: 'gnomon-config'});
  box.replaceChildren(bar, pair, config);
  const explore = (part, key) => new Explorer(part, {
    language, list, names: state[key].name && !names.includes(state[key].name) ? names :
        [state[key].name, ...names.filter(one => one !== state[key].name)].sort(
            (x, y) => names.indexOf(x) - names.indexOf(y)),
    state: state[key], changed: next => {
      state[key] = next;
      keep();
    }});
  explore(left, 'a');
  const showSecond = () => {
    pair.classList.toggle('gnomon-two', state.two);
    if (!state.two) right.remove();
    else if (!right.isConnected) {
      pair.append(right);
      if (!right.dataset.version) explore(right, 'b');
    }
  };
  two.addEventListener('change', () => {
    state.two = two.checked;
    showSecond();
    keep();
  });
  showSecond();
  mountConfig(config, {language, text: state.config, changed: text => {
    state.config = text;
    keep();
  }});
  box.dataset.state = 'ready';
}
