// What the person has chosen on this page, kept in this browser.
import { recall, remember } from "../shared/storage.js";

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

/**
 * What can be used of what was kept, perhaps by another release; the defaults for the rest.
 * @param {string | null} text
 * @returns {Choices}
 */
export function usable(text) {
  try {
    const kept = JSON.parse(text ?? "{}");
    const known = Object.entries(DEFAULTS).filter(
      ([name, value]) => typeof kept[name] === typeof value && (ALLOWED[name]?.(kept[name]) ?? true),
    );
    return { ...DEFAULTS, ...Object.fromEntries(known.map(([name]) => [name, kept[name]])) };
  } catch {
    return { ...DEFAULTS };
  }
}

export const choices = usable(recall(NAME));

/** @param {Partial<Choices>} changes */
export function choose(changes) {
  Object.assign(choices, changes);
  remember(NAME, JSON.stringify(choices));
}
