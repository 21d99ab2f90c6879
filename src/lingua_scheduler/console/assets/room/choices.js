// What the person has chosen on this page, kept in this browser.
import { recall, remember } from "../shared/storage.js";
import { usable } from "../shared/usable.js";

const NAME = "room";
const DEFAULTS = {
  name: "",
  language: "",
  interface: "",
  /** Loudness of people's own voices, and of the translations: 0…1. */
  voices: 1,
  translations: 1,
  isSilent: false,
  isHandsFree: false,
};

/** @typedef {typeof DEFAULTS} Choices */

export const MAX_NAME_CHARS = 64;
const isLoudness = (/** @type {number} */ value) => value >= 0 && value <= 1;
/** @type {Record<string, (value: any) => boolean>} */
const ALLOWED = {
  name: (value) => value.length <= MAX_NAME_CHARS,
  voices: isLoudness,
  translations: isLoudness,
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
