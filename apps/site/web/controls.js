// Controls of a figure: native inputs, so that the keyboard and screen readers work.
import {element} from './dom.js';
import {localized, number} from './text.js';

let count = 0;

const makers = {
  range({min, max, step = 1, unit}, id, language, changed) {
    const input = element('input', {type: 'range', id, min, max, step});
    const shown = element('output', {for: id});
    input.addEventListener('input', () => changed(Number(input.value)));
    return {input, extra: [shown], show(value) {
      input.value = value;
      shown.textContent = number(value, 6) + (unit ? ` ${localized(unit, language)}` : '');
    }};
  },
  toggle(_, id, language, changed) {
    const input = element('input', {type: 'checkbox', id});
    input.addEventListener('change', () => changed(input.checked));
    return {input, extra: [], show(value) { input.checked = value; }};
  },
  choice({options}, id, language, changed) {
    const input = element('select', {id}, ...options.map(
        one => element('option', {value: one.value}, localized(one.label, language))));
    input.addEventListener('change', () => changed(options[input.selectedIndex].value));
    return {input, extra: [], show(value) {
      input.selectedIndex = options.findIndex(one => one.value === value);
    }};
  },
  text({maxLength = 200}, id, language, changed) {
    const input = element('input', {type: 'text', id, maxlength: maxLength, autocomplete: 'off',
                                    spellcheck: 'false'});
    input.addEventListener('input', () => changed(input.value));
    return {input, extra: [], show(value) { if (input.value !== value) input.value = value; }};
  },
  area({rows = 8, maxLength = 100000}, id, language, changed) {
    const input = element('textarea', {id, rows, maxlength: maxLength, spellcheck: 'false'});
    input.addEventListener('input', () => changed(input.value));
    return {input, extra: [], show(value) { if (input.value !== value) input.value = value; }};
  },
};

/** The values of the controls at the start. */
export function initialState(controls, language) {
  return Object.fromEntries(controls.map(({name, type, value}) =>
      [name, type === 'text' || type === 'area' ? localized(value, language) : value]));
}

/** A form with the controls; `changed(name, value)` is called if the reader changes one. */
export class Controls {
  #shown = new Map();
  constructor(controls, language, changed) {
    this.form = element('form', {class: 'gnomon-controls'});
    this.form.addEventListener('submit', event => event.preventDefault());
    for (const control of controls) {
      const id = `gnomon-control-${count++}`;
      const {input, extra, show} =
          makers[control.type](control, id, language, value => changed(control.name, value));
      input.dataset.control = control.name;
      this.#shown.set(control.name, show);
      this.form.append(element('div', {class: `gnomon-control gnomon-${control.type}`},
                               element('label', {for: id}, localized(control.label, language)), input,
                               ...extra));
    }
  }
  show(state) {
    for (const [name, show] of this.#shown) show(state[name]);
  }
}
