// The only way this page makes elements. Text goes in as text: what peers say can never become markup.

const SVG = "http://www.w3.org/2000/svg";

/** @typedef {string | Node | null | undefined | false} Child */
/** @typedef {(event: any) => void} Handler */
/** @typedef {Record<string, string | number | boolean | null | undefined | Handler>} Attributes */

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

/**
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} [attributes]
 * @param {...(Child | Child[])} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  fill(element, attributes, children);
  return element;
}

/**
 * @param {Element} element
 * @param {Attributes} attributes
 * @param {(Child | Child[])[]} children
 */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat().filter(isThere));
}

/**
 * @param {Child} child
 * @returns {child is string | Node}
 */
function isThere(child) {
  return child !== null && child !== undefined && child !== false;
}

/**
 * An element of index.html.
 * @param {string} id
 */
export function byId(id) {
  const found = document.getElementById(id);
  if (found === null) throw new Error(`the page has no #${id}`);
  return found;
}

/**
 * Writes only what is different: an unchanged cell costs a comparison, not a layout.
 * @param {Element} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {string | number | boolean | null} value
 */
export function setAttribute(element, name, value) {
  if (value === null || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
  } else if (element.getAttribute(name) !== String(value)) {
    element.setAttribute(name, String(value));
  }
}

/**
 * @param {HTMLElement} element
 * @param {boolean} isShown
 */
export function show(element, isShown) {
  if (element.hidden === isShown) element.hidden = !isShown;
}

/**
 * A part of a page that shows one item.
 * @template T
 * @typedef {{element: Element, update?(item: T): void}} Part
 */

/**
 * Children of one parent by key; what stays is not made again.
 * @template T
 */
export class Keyed {
  /**
   * @param {Element} parent
   * @param {(item: T) => Part<T>} make
   */
  constructor(parent, make) {
    this.parent = parent;
    this.make = make;
    /** @type {Map<string, Part<T>>} */
    this.parts = new Map();
  }

  /**
   * @param {readonly T[]} items
   * @param {(item: T) => string} keyOf
   */
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
