// What the page says. The bar speaks English or Chinese; each half speaks the language of its person, if we know it.
import { filled, languageName } from "../shared/i18n.js";
import de from "./words-de.js";
import en from "./words-en.js";
import es from "./words-es.js";
import fr from "./words-fr.js";
import it from "./words-it.js";
import ja from "./words-ja.js";
import ko from "./words-ko.js";
import pt from "./words-pt.js";
import ru from "./words-ru.js";
import zh from "./words-zh.js";

/** @import {Fillings} from "../shared/i18n.js" */

/** @typedef {keyof typeof en} Word */
/** @typedef {"title" | "swap" | "sound_on" | "sound_off" | "text_size" | "theme" | "layout" | "interface" | "clear"} BarLabel */
/** @typedef {Extract<Word, `state_${string}`>} State */
/** @typedef {Record<Exclude<Word, BarLabel | State>, string>} HalfWords */

/** The languages of the whole page. */
export const WORDS = { en, zh };
/** The languages of one half only. */
export const HALVES = { de, es, fr, it, ja, ko, pt, ru };

/** @typedef {keyof typeof WORDS | keyof typeof HALVES} Reader */

/** @type {Record<Reader, Partial<Record<Word, string>>>} */
const ALL = { ...WORDS, ...HALVES };

/**
 * The language in which a person who speaks `code` (such as pt-BR) reads their half; `otherwise` where there is none.
 * @param {string} code
 * @param {Reader} otherwise
 * @returns {Reader}
 */
export function reader(code, otherwise) {
  const [base] = code.toLowerCase().split("-");
  return Object.hasOwn(ALL, base) ? /** @type {Reader} */ (base) : otherwise;
}

/**
 * @param {Reader} language
 * @param {Word} key
 * @param {Fillings} [values]
 */
export function say(language, key, values = {}) {
  return filled(ALL[language][key] ?? en[key], values);
}

/**
 * A sentence about languages, given by their codes: within it their names are written as the reader writes them.
 * @param {Reader} language
 * @param {Word} key
 * @param {Record<string, string>} codes
 */
export function sentence(language, key, codes) {
  const named = Object.entries(codes).map(([name, code]) => [name, languageName(code, language)]);
  return capitalised(say(language, key, Object.fromEntries(named)), language);
}

/**
 * The word for people with a mouse and a keyboard, where it is another one.
 * @param {Word} key
 * @param {boolean} hasKeys
 * @returns {Word}
 */
export function forKeys(key, hasKeys) {
  const other = `${key}_keys`;
  return hasKeys && isWord(other) ? other : key;
}

/**
 * @param {string} key
 * @returns {key is Word}
 */
export function isWord(key) {
  return Object.hasOwn(en, key);
}

/**
 * A language's name in another language, with a capital letter as in a list.
 * @param {string} code
 * @param {Reader} inLanguage
 */
export function nameOf(code, inLanguage) {
  const name = languageName(code, inLanguage);
  return name === code ? code : capitalised(name, inLanguage);
}

/**
 * @param {string} text
 * @param {Reader} language
 */
function capitalised(text, language) {
  return text.charAt(0).toLocaleUpperCase(language) + text.slice(1);
}
