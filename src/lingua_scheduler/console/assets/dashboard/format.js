// Numbers, times and languages as people read them.
import { language, t } from "./words.js";

const made = new Map();

function once(name, make) {
  const key = `${language()} ${name}`;
  if (!made.has(key)) made.set(key, make(language() === "zh" ? "zh-CN" : "en-GB"));
  return made.get(key);
}

export function number(value, digits = 0) {
  const format = once(`number ${digits}`, (code) => new Intl.NumberFormat(code, { maximumFractionDigits: digits }));
  return format.format(value);
}

export function rate(value) {
  return number(value, value < 10 ? 1 : 0);
}

export function percent(share) {
  return `${number(share * 100, share < 0.1 ? 1 : 0)} %`;
}

export function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  if (value < 1000) return t("unit.ms", { n: number(value) });
  return t("unit.s", { n: number(value / 1000, value < 10_000 ? 2 : 1) });
}

/** How long, in its one or two largest units. */
export function duration(ms) {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return t("unit.s", { n: seconds });
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return t("unit.min", { n: minutes });
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${t("unit.h", { n: hours })} ${t("unit.min", { n: minutes % 60 })}`;
  return t("unit.d", { n: Math.floor(hours / 24) });
}

export function ago(ms) {
  return ms < 1500 ? t("just_now") : t("ago", { time: duration(ms) });
}

export function clock(atMs) {
  const format = once("clock", (code) => new Intl.DateTimeFormat(code, { timeStyle: "medium", hour12: false }));
  return format.format(atMs);
}

export function clockShort(atMs) {
  const options = { hour: "2-digit", minute: "2-digit", hour12: false };
  return once("short", (code) => new Intl.DateTimeFormat(code, options)).format(atMs);
}

export function moment(atMs) {
  const options = { dateStyle: "medium", timeStyle: "medium", hour12: false };
  return once("moment", (code) => new Intl.DateTimeFormat(code, options)).format(atMs);
}

const names = new Map();

export function languageName(code) {
  const key = `${language()} ${code}`;
  if (!names.has(key)) names.set(key, spelled(code));
  return names.get(key);
}

function spelled(code) {
  try {
    return once("names", (own) => new Intl.DisplayNames([own], { type: "language" })).of(code) ?? code;
  } catch {
    return code; // a peer's idea of a language
  }
}

export function compare(one, other) {
  return once("order", (code) => new Intl.Collator(code, { numeric: true })).compare(one, other);
}

/** "en:zh" in words; "auto:en+zh" is a conversation in both directions. */
export function pairName(pair) {
  const [src, tgt = ""] = pair.split(":");
  if (src === "auto") return tgt.split("+").map(languageName).join(" ↔ ");
  return `${languageName(src)} → ${languageName(tgt)}`;
}
