// The only way this page makes elements. Text goes in as text: what peers say can never become markup.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat()) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

/** Writes only what is different: an unchanged cell costs a comparison, not a layout. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (value === null || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, value);
  }
}

export function show(element, isShown) {
  if (element.hidden === isShown) element.hidden = !isShown;
}

/** Children of one parent by key. `make(item)` gives `{element, update(item)}`; what stays is not made again. */
export class Keyed {
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    this.parts = new Map();
  }

  show(items, keyOf) {
    const kept = new Map();
    let place = this.parent.firstElementChild;
    for (const item of items) {
      const key = keyOf(item);
      if (kept.has(key)) continue;
      const part = this.parts.get(key) ?? this.make(item);
      part.update?.(item);
      kept.set(key, part);
      if (part.element === place) place = place.nextElementSibling;
      else this.parent.insertBefore(part.element, place);
    }
    for (const [key, part] of this.parts) if (!kept.has(key)) part.element.remove();
    this.parts = kept;
  }
}

export function remember(name, value) {
  try {
    localStorage.setItem(`lingua.${name}`, value);
  } catch {
    // A browser that keeps nothing still shows everything.
  }
}

export function recall(name) {
  try {
    return localStorage.getItem(`lingua.${name}`);
  } catch {
    return null;
  }
}
