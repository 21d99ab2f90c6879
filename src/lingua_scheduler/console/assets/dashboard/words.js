// What the page says, in the language that was chosen: one dictionary a language, both with the same keys.
import { filled, preferred, tag } from "../shared/i18n.js";
import { recall, remember } from "../shared/storage.js";

/** @import {Fillings, Language} from "../shared/i18n.js" */

/** @type {Record<string, string>} */
let dictionary = {};
/** @type {Language} */
let current = "en";
let answeredAtMs = NaN;

export function language() {
  return current;
}

/** The scheduler's clock when it gave the dictionary; not a number when it did not say. */
export function answeredAt() {
  return answeredAtMs;
}

export function preferredLanguage() {
  return preferred(recall("language"), navigator.languages);
}

/** @param {Language} code */
export async function speak(code) {
  const response = await fetch(`dashboard/${code}.json`);
  use(code, await response.json());
  answeredAtMs = Date.parse(response.headers.get("Date") ?? "");
  document.documentElement.lang = tag(code);
}

/**
 * @param {Language} code
 * @param {Record<string, string>} words
 */
export function use(code, words) {
  current = code;
  dictionary = words;
}

/** @param {Language} code */
export function choose(code) {
  remember("language", code);
  return speak(code);
}

/**
 * A text with its values, as `filled` puts them in; the key itself where the dictionary lacks it.
 * @param {string} key
 * @param {Fillings} [values]
 */
export function t(key, values = {}) {
  return filled(dictionary[key] ?? key, values);
}

/**
 * As `t`, or null when the dictionary lacks the key or the values lack a name it needs.
 * @param {string} key
 * @param {Fillings} values
 */
export function tryT(key, values) {
  const template = dictionary[key];
  if (template === undefined) return null;
  const needed = [...template.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  return needed.every((name) => values[name] !== undefined) ? filled(template, values) : null;
}
