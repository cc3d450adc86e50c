// A form for the fields of a spec: numbers, choices and lists as native inputs.
import {element} from './dom.js';

let count = 0;

function inputOf(value, field, changed) {
  if (field?.choices) {
    const input = element('select', {}, ...field.choices.map(one => element('option', {value: one}, one)));
    input.value = value;
    input.addEventListener('change', () => changed(input.value));
    return input;
  }
  const isNumber = typeof value === 'number';
  const input = element('input', {type: isNumber ? 'number' : 'text', step: 'any', size: 8,
                                  value: isNumber ? value : JSON.stringify(value)});
  input.addEventListener('change', () => {
    let next = input.value;
    try {
      next = JSON.parse(next);
    } catch {
      // The library names the error of a text that is no value.
    }
    changed(next);
  });
  return input;
}

function rowOf(name, value, field, changed) {
  const id = `gnomon-field-${count++}`, input = inputOf(value, field, changed);
  input.id = id;
  input.dataset.field = name;
  const row = element('div', {class: 'gnomon-field'}, element('label', {for: id}, name), input);
  if (field?.help) row.append(element('small', {}, field.help));
  return row;
}

// A scaling: its type, and the fields of that type.
function scalingOf(value, scalings, changed) {
  const types = Object.keys(scalings);
  const defaults = {factor: 4, original_length: value.original_length ?? 128,
                    trained_length: value.original_length ?? 128, low_freq_factor: 1,
                    high_freq_factor: 4, length: 512};
  const choose = type => {
    const fields = {type};
    for (const [name, field] of Object.entries(scalings[type])) {
      if (field.default !== undefined && field.default !== null) fields[name] = field.default;
      else if (name in defaults) fields[name] = defaults[name];
    }
    changed(fields);
  };
  const box = element('fieldset', {class: 'gnomon-fields'}, element('legend', {}, 'scaling'),
                      rowOf('type', value.type, {choices: types}, choose));
  for (const [name, one] of Object.entries(value))
    if (name !== 'type' && one !== null)
      box.append(rowOf(name, one, scalings[value.type]?.[name],
                       next => changed({...value, [name]: next})));
  return box;
}

/** Fills a box with the fields of a spec; `changed(name, value)` is called if one changes. */
export function showFields(box, spec, {encodings, scalings}, changed) {
  const fields = encodings[spec.kind] ?? {};
  box.replaceChildren(...Object.entries(spec).filter(([name]) => name !== 'kind').map(
      ([name, value]) => name === 'scaling'
          ? scalingOf(value, scalings, next => changed(name, next))
          : rowOf(name, value, fields[name], next => changed(name, next))));
}
