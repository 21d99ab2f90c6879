// What the page says, in English or Chinese.
import { filled, languageName, spoken } from "../shared/i18n.js";
import { choices } from "./choices.js";
import en from "./words-en.js";
import zh from "./words-zh.js";

/** @import {Fillings} from "../shared/i18n.js" */

/** @typedef {keyof typeof en} Word */

export const WORDS = { en, zh };

/** The language of the page. */
export function reader() {
  return spoken(choices.interface, "en");
}

/**
 * @param {Word} key
 * @param {Fillings} [values]
 */
export function say(key, values = {}) {
  return filled(WORDS[reader()][key], values);
}

/**
 * @param {string} key
 * @returns {key is Word}
 */
export function isWord(key) {
  return Object.hasOwn(en, key);
}

/** @param {string} code */
export function nameOf(code) {
  const name = languageName(code, reader());
  return name === code ? code : name.charAt(0).toLocaleUpperCase(reader()) + name.slice(1);
}

/**
 * The scheduler tells people in both languages: 房间已结束 (the room has ended).
 * @param {string} message
 */
export function readable(message) {
  const [, chinese, english] = /^([^(]*) \((.*)\)$/.exec(message) ?? [];
  if (!english) return message;
  return reader() === "zh" ? chinese : english;
}

/**
 * Why one is not in the room any more.
 * @param {string} reason
 * @param {string} message of the scheduler; may be empty
 */
export function whyEnded(reason, message) {
  if (reason === "refused") return say(reason, { reason: readable(message) });
  if (isWord(reason)) return say(reason);
  return message ? say("ended_reason", { reason: readable(message) }) : say("ended");
}
