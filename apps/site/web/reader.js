// The reader: a small trained model reads the text of the page's reader, longer than it was
// trained, with any encoding. The worker computes (reader_compute.js); the weights are the script
// gnomon-reader.js (apps/site/reader_bundle.py), which sets GNOMON_READER to {name: base64}.
import {Client, Latest, loadScript} from './client.js';
import {element} from './dom.js';
import {View} from './draw.js';
import {style} from './reader_style.js';
import {byteName, labels, lossesOf, names, ownName, say} from './reader_text.js';

const example = 'It was settled before breakfast that Mrs. Harlow should take the carriage, and ' +
    'that the young people should walk. Miss Anne, who had never in her life been consulted, ' +
    'was so much surprised to be asked for her opin';
const other = 'other', smoothing = 24, mostLoss = 8;

let ids = 0;

/** The bytes to read: the typed text, extended with the sample to at least `length` bytes. */
export function extended(text, sample, length, largest) {
  const own = new TextEncoder().encode(text).slice(0, largest);
  if (own.length >= length) return {bytes: own, own: own.length};
  const rest = new TextEncoder().encode(` ${sample}`), bytes = new Uint8Array(length);
  bytes.set(own);
  const skipped = own.length ? 0 : 1;  // no space before the sample
  for (let i = own.length; i < length; ++i)
    bytes[i] = rest[(i - own.length + skipped) % rest.length];
  return {bytes, own: own.length};
}

/** Means over at most 2 `radius` + 1 values around each. */
export function smoothed(values, radius) {
  const sums = [0];
  for (const one of values) sums.push(sums.at(-1) + one);
  return Float32Array.from(values, (_, i) => {
    const begin = Math.max(0, i - radius), end = Math.min(values.length, i + radius + 1);
    return (sums[end] - sums[begin]) / (end - begin);
  });
}

// Characters of bytes: [{text, begin, end}]. A byte that is not UTF-8 is a character of its own.
export function characters(bytes) {
  const all = [];
  for (let begin = 0; begin < bytes.length;) {
    const lead = bytes[begin];
    const size = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    let end = begin + size;
    let text = new TextDecoder().decode(bytes.subarray(begin, end));
    if (text.includes('\ufffd') || end > bytes.length) {
      end = begin + 1;
      text = '\ufffd';
    }
    all.push({text, begin, end});
    begin = end;
  }
  return all;
}

function base64Bytes(text) {
  return Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer;
}

const select = options => element('select', {}, ...options.map(
    ([value, label]) => element('option', {value}, label)));

const range = attributes => element('input', {type: 'range', ...attributes});

class Reader {
  constructor(box, client, language) {
    Object.assign(this, {box, client, language});
    this.status = element('p', {class: 'gnomon-status', 'aria-live': 'polite'},
                          labels.loading[language]);
    this.failure = element('p', {class: 'gnomon-error', role: 'alert', hidden: true});
    box.append(element('style', {}, style), this.failure, this.status);
  }

  async start() {
    await Promise.all(['gnomon-reader.js', 'gnomon-data.js'].map(loadScript));
    this.data = self.GNOMON_DATA.reader;
    this.largest = Math.max(...this.data.lengths);
    await this.client.call('reader', {load: Object.fromEntries(
        Object.entries(self.GNOMON_READER).map(([name, text]) => [name, base64Bytes(text)]))});
    this.#build();
    this.latest = new Latest(request => this.#run(request), this.#show.bind(this),
                             error => this.#fail(error));
    return this.#changed();
  }

  #label(key) {
    return labels[key][this.language];
  }

  #field(key, input, ...extra) {
    input.id = `gnomon-reader-${ids++}`;
    input.dataset.control = key;
    return element('div', {class: 'gnomon-control'},
                   element('label', {for: input.id}, this.#label(key)), input, ...extra);
  }

  #build() {
    const {language, data} = this, changed = () => this.#changed();
    this.text = element('textarea', {rows: 4, spellcheck: 'false', maxlength: this.largest});
    this.text.value = example;
    this.model = select(data.models.map(one => [one.name, names[one.name][language]]));
    this.encoding = select([]);
    this.custom = element('input', {type: 'text', autocomplete: 'off', spellcheck: 'false',
                                    maxlength: 2000});
    this.custom.value = 't5';
    this.customField = this.#field('name', this.custom);
    this.length = range({min: 64, max: this.largest, step: 64});
    this.length.value = 4 * data.trained;
    this.lengthShown = element('output');
    this.position = range({min: 0, max: this.largest - 1, step: 1});
    this.positionShown = element('output');
    this.layer = select(Array.from({length: data.layers}, (_, i) => [i, i + 1]));
    this.layer.value = data.layers - 1;
    this.head = select(Array.from({length: data.heads}, (_, i) => [i, i + 1]));
    this.meter = element('div', {class: 'gnomon-reader-meter', 'aria-hidden': 'true'});
    const form = element('form', {class: 'gnomon-controls'},
        element('div', {class: 'gnomon-reader-field'}, this.#field('text', this.text),
                element('p', {class: 'gnomon-reader-hint'}, this.#label('hint'))),
        this.#field('model', this.model), this.#field('encoding', this.encoding),
        this.customField, this.#field('length', this.length, this.lengthShown),
        this.#field('position', this.position, this.positionShown),
        this.#field('layer', this.layer), this.#field('head', this.head));
    form.addEventListener('submit', event => event.preventDefault());
    this.#listen(changed);
    this.strip = element('div', {class: 'gnomon-reader-strip', role: 'region', tabindex: 0,
                                 'aria-label': this.#label('strip')});
    this.strip.addEventListener('click', event => {
      const at = event.target.dataset?.at;
      if (at === undefined) return;
      this.position.value = at;
      changed();
    });
    this.parts = element('div', {class: 'gnomon-parts', role: 'group',
                                 'aria-label': this.#label('charts')});
    this.view = new View(this.parts, {language, set: settings => {
      if (settings.position !== undefined) this.position.value = settings.position;
      changed();
    }});
    this.box.prepend(form, this.meter, this.failure, this.status, this.strip, this.parts);
    this.#fillEncodings();
    this.#toCaret();
  }

  #listen(changed) {
    this.text.addEventListener('input', () => {
      this.#toCaret();
      changed();
    });
    for (const event of ['keyup', 'click'])
      this.text.addEventListener(event, () => {
        if (this.#toCaret()) changed();
      });
    this.model.addEventListener('change', () => {
      this.#fillEncodings();
      changed();
    });
    for (const input of [this.encoding, this.layer, this.head, this.custom])
      input.addEventListener('change', changed);
    for (const input of [this.length, this.position]) input.addEventListener('input', changed);
  }

  // The encodings that the model was measured with, and any other.
  #fillEncodings() {
    const {language} = this, before = this.encoding.value;
    const {runs, name} = this.#entry();
    this.encoding.replaceChildren(...runs.map(run => element(
        'option', {value: run.own ? 'own' : run.encoding},
        run.own ? names[name][language] + ownName[language] : names[run.encoding][language])),
        element('option', {value: other}, this.#label('other')));
    this.encoding.value = [...this.encoding.options].some(one => one.value === before)
        ? before : 'own';
  }

  #entry() {
    return this.data.models.find(one => one.name === this.model.value);
  }

  // Moves the position to the byte before the caret; whether it has changed.
  #toCaret() {
    const caret = document.activeElement === this.text
        ? this.text.selectionStart : this.text.value.length;
    const at = Math.max(0, new TextEncoder().encode(this.text.value.slice(0, caret)).length - 1);
    if (Number(this.position.value) === at) return false;
    this.position.value = at;
    return true;
  }

  #changed() {
    const {bytes, own} =
        extended(this.text.value, this.data.sample, Number(this.length.value), this.largest);
    this.position.max = Math.max(0, bytes.length - 1);
    this.customField.hidden = this.encoding.value !== other;
    const request = {
      model: this.model.value, bytes, position: Number(this.position.value),
      encoding: this.encoding.value === other ? this.custom.value : this.encoding.value,
      layer: Number(this.layer.value), head: Number(this.head.value),
    };
    this.lengthShown.textContent = `${bytes.length} ${this.#label('bytes')}`;
    this.positionShown.textContent = this.position.value;
    this.#showMeter(own, bytes.length);
    return this.latest.set(Object.assign(request, {own}));
  }

  async #run({own, ...request}) {
    if (request.bytes.length < 2) throw new Error(this.#label('short'));
    return this.client.call('reader', request);
  }

  #fail(error) {
    this.failure.textContent = `${this.#label('error')}: ${error.message}`;
    this.failure.hidden = false;
    this.#ready('error');
  }

  #ready(state) {
    this.box.dataset.state = state;
    this.box.dataset.version = Number(this.box.dataset.version ?? 0) + 1;
  }

  #show(result, request) {
    this.failure.hidden = true;
    this.#showStrip(result, request);
    this.#showLoss(result, request);
    this.#showNext(result, request);
    this.#showAttention(result, request);
    this.view.finish();
    const own = request.encoding === 'own' ? request.model : request.encoding;
    this.status.textContent = say(result, {...request, encoding: own}, this.language);
    const {inside, beyond} = lossesOf(result);
    Object.assign(this.box.dataset, {inside: inside.toFixed(3), beyond: beyond.toFixed(3)});
    this.#ready('ready');
  }

  #showMeter(own, total) {
    const share = size => `${100 * size / this.largest}%`;
    const part = (name, size) => element(
        'span', {class: `gnomon-reader-${name}`, style: `width:${share(size)}`});
    const line = element('span', {class: 'gnomon-reader-line',
                                  style: `left:${share(this.data.trained)}`},
                         `${this.#label('trained')}: ${this.data.trained}`);
    this.meter.replaceChildren(part('all', total), part('typed', own), line);
  }

  // Every character with the loss of its bytes, and a line at the training length.
  #showStrip({bits, trained}, {bytes, own, position}) {
    const all = [];
    let isMarked = false;
    for (const {text, begin, end} of characters(bytes)) {
      if (!isMarked && begin >= trained) {
        all.push(element('span', {class: 'gnomon-reader-end'},
                         `${this.#label('trained')}: ${trained} ${this.#label('bytes')}`));
        isMarked = true;
      }
      let loss = 0;
      for (let i = Math.max(begin, 1); i < end; ++i) loss += bits[i - 1];
      const isHere = position >= begin && position < end;
      all.push(element('span', {
        class: `${begin < own ? 'gnomon-reader-own' : ''} ${isHere ? 'gnomon-reader-here' : ''}`,
        style: `--loss:${(50 * Math.min(1, loss / mostLoss)).toFixed(0)}%`, 'data-at': end - 1,
      }, text === '\n' ? '↵\n' : text));
    }
    this.strip.replaceChildren(...all);
  }

  #showLoss({bits, trained}, {encoding}) {
    const {runs} = this.#entry(), {stretch, segments} = this.data;
    const testText = this.#label('testText').replace('{n}', segments);
    const measured = runs.find(one => one.own ? encoding === 'own' : one.encoding === encoding);
    const x = Float32Array.from(bits, (_, i) => i + 1);
    const means = (one, name, colour, dashed) => ({
      name, colour, dashed, y: one.by_position,
      x: one.by_position.map((_, i) => (i + 0.5) * stretch + 0.5),
    });
    const series = [
      {name: this.#label('thisText'), x, y: smoothed(bits, smoothing), colour: 'a'},
    ];
    if (measured) series.push(means(measured, testText, 'b'));
    if (!measured?.own)
      series.push(means(runs.find(one => one.own), this.#label('ownMean'), 'muted', true));
    this.view.lines('loss', {
      series, title: this.#label('loss'), xTitle: this.#label('positionAxis'),
      yTitle: this.#label('lossAxis'), xRange: [0, bits.length + 1], yRange: [0, mostLoss],
      marks: [{x: trained, label: this.#label('trained')}],
    });
  }

  #showNext({next}, {bytes, own, position}) {
    // The byte after the typed text is that of the sample: no continuation of the text.
    const isKnown = position + 1 < bytes.length && position + 1 !== own;
    const real = isKnown ? bytes[position + 1] : undefined;
    this.view.bars('next', {
      title: this.#label('next'), range: [0, 100], unit: ' %', span: 'half',
      bars: next.map(({byte, probability}) => ({
        name: byteName(byte, this.language) + (byte === real ? ` (${this.#label('real')})` : ''),
        value: 100 * probability, colour: byte === real ? 'b' : 'a',
      })),
    });
  }

  #showAttention({whole, near, row, trained}, {bytes, position}) {
    const titles = {rowTitle: this.#label('query'), columnTitle: this.#label('key')};
    const blocks = Array.from({length: whole.rows}, (_, i) => String(i * whole.step));
    const mark = Math.floor(position / whole.step);
    const most = values => [0, Math.max(...values.filter(Number.isFinite))];
    const chars = Array.from(bytes.subarray(near.begin, position + 1),
                             byte => byte === 32 ? '␣' : byte === 10 ? '↵'
                                 : byteName(byte, this.language));
    this.view.lines('row', {
      title: this.#label('row'), span: 'half', xTitle: this.#label('distance'),
      yTitle: this.#label('weight'), marks: position >= trained
          ? [{x: trained, label: this.#label('trained')}] : [],
      series: [{x: Array.from(row, (_, i) => i), y: [...row].reverse(), colour: 'c'}],
    });
    this.view.heatmap('whole', {
      ...titles, values: whole.values, rows: whole.rows, columns: whole.rows, span: 'half',
      range: most(whole.values), title: this.#label('whole'), rowLabels: blocks, columnLabels: blocks,
      marks: [{row: mark, column: 0, columns: whole.rows}],
      pick: at => ({position: Math.min(bytes.length - 1, at * whole.step)}),
    });
    this.view.heatmap('near', {
      ...titles, values: near.values, rows: near.rows, columns: near.rows, span: 'half',
      range: most(near.values), title: this.#label('near'), rowLabels: chars, columnLabels: chars,
    });
  }
}

/** Puts the reader into `<div class="gnomon-reader" data-language="en">`. */
export async function mountReader(
    box, {client = Client.shared(), language = box.dataset.language ?? 'en'} = {}) {
  const reader = new Reader(box, client, language);
  try {
    await reader.start();
  } catch (error) {
    reader.failure.textContent = `${labels.error[language]}: ${error.message}`;
    reader.failure.hidden = false;
    box.dataset.state = 'error';
  }
}
