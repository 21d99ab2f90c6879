// The parts of the document that the modules of this page show things in.

/** @typedef {"a" | "b"} Side */

/** @type {readonly Side[]} */
export const SIDES = ["a", "b"];
export const root = document.documentElement;

/**
 * @param {Side} side
 * @returns {Side}
 */
export function other(side) {
  return side === "a" ? "b" : "a";
}

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
