// What the person has chosen on this page, kept in this browser.
import { recall, remember } from "../shared/storage.js";
import { usable } from "../shared/usable.js";

const NAME = "talk";
const DEFAULTS = {
  a: "",
  b: "",
  interface: "",
  layout: "",
  size: 1,
  isMuted: false,
};

/** @typedef {typeof DEFAULTS} Choices */

export const SIZES = 4;
/** @type {Record<string, (value: any) => boolean>} */
const ALLOWED = {
  layout: (value) => ["face", "solo"].includes(value),
  size: (value) => Number.isInteger(value) && value >= 0 && value < SIZES,
};

/** @param {string | null} text */
export function usableChoices(text) {
  return usable(text, DEFAULTS, ALLOWED);
}

export const choices = usableChoices(recall(NAME));

/** @param {Partial<Choices>} changes */
export function choose(changes) {
  Object.assign(choices, changes);
  remember(NAME, JSON.stringify(choices));
}
