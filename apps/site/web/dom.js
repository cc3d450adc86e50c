// HTML elements.

/** A new element with attributes; undefined and false ones are left out. */
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== undefined && value !== false) made.setAttribute(key, value === true ? '' : value);
  made.append(...children);
  return made;
}
