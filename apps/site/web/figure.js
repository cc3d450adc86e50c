// A figure of the book on its page: controls, the picture, and a sentence that says what it shows.
import {Client, Latest} from './client.js';
import {Controls, initialState} from './controls.js';
import {element} from './dom.js';
import {View} from './draw.js';
import {text} from './text.js';

/** Puts a figure into `<figure data-figure="name">`, in place of its picture. */
export function mountFigure(box, module, client = Client.shared()) {
  const language = box.dataset.language ?? 'en', start = initialState(module.controls, language);
  let state = {...start};
  const body = box.querySelector('.gnomon-figure-body');
  const picture = element('div', {class: 'gnomon-parts', role: 'group',
                                  'aria-label': body.querySelector('img')?.alt ||
                                                body.getAttribute('aria-label') || module.name});
  const verdict = element('span', {class: 'gnomon-verdict'});
  const said = element('span', {class: 'gnomon-said'});
  const failure = element('p', {class: 'gnomon-error', role: 'alert', hidden: true});
  const status = element('p', {class: 'gnomon-status', 'aria-live': 'polite'}, verdict, ' ', said);

  const set = settings => {
    state = {...state, ...settings};
    controls.show(state);
    latest.set(state);
  };
  // An option may set other controls too, for example the text of an example.
  const optionOf = (name, value) => module.controls.find(control => control.name === name).options?.find(
      option => option.value === value);
  const controls = new Controls(module.controls, language, (name, value) =>
      set({[name]: value, ...optionOf(name, value)?.sets}));
  const view = new View(picture, {language, set});
  const button = (label, settings) => {
    const one = element('button', {type: 'button'}, text(label, language));
    one.addEventListener('click', () => set(settings));
    return one;
  };
  const buttons = element('div', {class: 'gnomon-buttons'});
  if (module.breaks) buttons.append(button('breakIt', module.breaks));
  buttons.append(button('reset', start));

  const show = ({result, holds}, present) => {
    failure.hidden = true;
    module.draw(view, result, present, language);
    view.finish();
    verdict.textContent = text(holds ? 'holds' : 'fails', language);
    verdict.classList.toggle('gnomon-fails', !holds);
    said.textContent = module.say(result, present, language);
    box.dataset.holds = holds;
    box.dataset.state = 'ready';
    box.dataset.version = Number(box.dataset.version ?? 0) + 1;
  };
  const fail = error => {
    failure.textContent = `${text('error', language)}: ${error.message}`;
    failure.hidden = false;
    box.dataset.state = 'error';
    box.dataset.version = Number(box.dataset.version ?? 0) + 1;
  };
  const latest = new Latest(present => client.call('figure', {name: module.name, state: present}), show, fail);

  controls.form.append(buttons);
  const fallback = [...body.childNodes];
  const first = latest.set(state);
  controls.show(state);
  body.append(controls.form, picture, failure, status);
  for (const node of fallback) node.remove();
  return first;
}
