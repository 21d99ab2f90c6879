// Numbers, times and languages as people read them.
import { languageName as nameIn } from "../shared/i18n.js";
import { language, t } from "./words.js";

const LOCALES = { en: "en-GB", zh: "zh-CN" };

/**
 * Making a format takes long: one of each kind is kept for each language.
 * @template T
 * @param {(locale: string, ...more: any[]) => T} make
 * @returns {(...more: any[]) => T}
 */
function kept(make) {
  /** @type {Map<string, T>} */
  const made = new Map();
  return (...more) => {
    const key = [language(), ...more].join(" ");
    const known = made.get(key) ?? make(LOCALES[language()], ...more);
    made.set(key, known);
    return known;
  };
}

const numbers = kept((locale, digits) => new Intl.NumberFormat(locale, { maximumFractionDigits: digits }));
const clocks = kept((locale) => new Intl.DateTimeFormat(locale, { timeStyle: "medium", hour12: false }));
const shortClocks = kept(
  (locale) => new Intl.DateTimeFormat(locale, { hour: "2-digit", minute: "2-digit", hour12: false }),
);
const moments = kept(
  (locale) => new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "medium", hour12: false }),
);
const days = kept((locale) => new Intl.DateTimeFormat(locale, { dateStyle: "medium" }));
const orders = kept((locale) => new Intl.Collator(locale, { numeric: true }));
const names = kept((locale, code) => nameIn(code, locale));

/**
 * @param {number} value
 * @param {number} [digits]
 */
export function number(value, digits = 0) {
  return numbers(digits).format(value);
}

/** @param {number} value */
export function rate(value) {
  return number(value, value < 10 ? 1 : 0);
}

/** @param {number} share */
export function percent(share) {
  return `${number(share * 100, share < 0.1 ? 1 : 0)} %`;
}

/** @param {number | null | undefined} value */
export function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1000) return t("unit.ms", { n: number(value) });
  return t("unit.s", { n: number(value / 1000, value < 10_000 ? 2 : 1) });
}

/**
 * How long, in its one or two largest units.
 * @param {number} ms
 */
export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return t("unit.s", { n: seconds });
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return t("unit.min", { n: minutes });
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${t("unit.h", { n: hours })} ${t("unit.min", { n: minutes % 60 })}`;
  return t("unit.d", { n: Math.floor(hours / 24) });
}

/** @param {number} ms */
export function ago(ms) {
  return ms < 1500 ? t("just_now") : t("ago", { time: duration(ms) });
}

/** @param {number} atMs */
export function clock(atMs) {
  return clocks().format(atMs);
}

/** @param {number} atMs */
export function clockShort(atMs) {
  return shortClocks().format(atMs);
}

/** @param {number} atMs */
export function moment(atMs) {
  return moments().format(atMs);
}

/** @param {number} atMs */
export function day(atMs) {
  return days().format(atMs);
}

/** @param {string} code */
export function languageName(code) {
  return names(code);
}

/**
 * @param {string} one
 * @param {string} other
 */
export function compare(one, other) {
  return orders().compare(one, other);
}

/**
 * "en:zh" in words; "auto:en+zh" is a conversation in both directions, "auto:zh" one in several languages.
 * @param {string} pair
 */
export function pairName(pair) {
  const [src, tgt = ""] = pair.split(":");
  if (src === "auto" && tgt.includes("+")) return tgt.split("+").map(languageName).join(" ↔ ");
  return `${languageName(src)} → ${languageName(tgt)}`;
}
