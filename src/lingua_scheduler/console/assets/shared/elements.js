// The parts of a document that its index.html must have.

export const root = document.documentElement;

/**
 * The element of that kind; one that index.html lacks is a mistake.
 * @template {Element} T
 * @param {new () => T} kind
 * @param {string} selector
 * @param {ParentNode} [within]
 * @returns {T}
 */
export function find(kind, selector, within = document) {
  const found = within.querySelector(selector);
  if (!(found instanceof kind)) throw new Error(`the page has no ${selector}`);
  return found;
}

/** @param {string} selector */
export function button(selector) {
  return find(HTMLButtonElement, selector);
}

/**
 * What a screen reader says and a mouse shows of a control without text.
 * @param {Element} element
 * @param {string} text
 */
export function label(element, text) {
  element.setAttribute("title", text);
  element.setAttribute("aria-label", text);
}

/**
 * A picture of index.html: the symbol `icon-…`.
 * @param {string} name
 */
export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  use.setAttribute("href", `#icon-${name}`);
  svg.append(use);
  return svg;
}
