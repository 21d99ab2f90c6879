// The two sides of this page.

/** @typedef {"a" | "b"} Side */

/** @type {readonly Side[]} */
export const SIDES = ["a", "b"];

/**
 * @param {Side} side
 * @returns {Side}
 */
export function other(side) {
  return side === "a" ? "b" : "a";
}
