// What the page says, in the language that was chosen: one dictionary a language, both with the same keys.
import { recall, remember } from "./dom.js";

export const LANGUAGES = { en: "English", zh: "中文" };

let dictionary = {};
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
  const chosen = recall("language");
  if (chosen in LANGUAGES) return chosen;
  return navigator.languages.map((code) => code.slice(0, 2)).find((code) => code in LANGUAGES) ?? "en";
}

export async function speak(code) {
  const response = await fetch(`dashboard/${code}.json`);
  dictionary = await response.json();
  current = code;
  answeredAtMs = Date.parse(response.headers.get("Date"));
  document.documentElement.lang = code === "zh" ? "zh-CN" : code;
}

export function choose(code) {
  remember("language", code);
  return speak(code);
}

export function has(key) {
  return key in dictionary;
}

/** `{name}` stands for a value; `one|many` is decided by the value `n`, `{name?one:many}` by the value it names. */
export function t(key, values = {}) {
  return filled(dictionary[key] ?? key, values);
}

/** As `t`, or null when the dictionary lacks the key or the values lack a name it needs. */
export function tryT(key, values) {
  const template = dictionary[key];
  if (template === undefined) return null;
  const needed = [...template.matchAll(/\{(\w+)\}/g)].map((match) => match[1]);
  return needed.every((name) => values[name] !== undefined) ? filled(template, values) : null;
}

/** Numbers come as they are, or as people read them. */
function isOne(value) {
  return value === 1 || value === "1";
}

function filled(template, values) {
  const [one, many = one] = template.split("|");
  const chosen = isOne(values.n) ? one : many;
  return chosen
    .replace(/\{(\w+)\?([^:}]*):([^}]*)\}/g, (_, name, single, several) => (isOne(values[name]) ? single : several))
    .replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}
