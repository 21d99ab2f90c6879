// Which language a person speaks here, and what a person alone is translated into. Pure.

/** @typedef {{languages: string[], of(source: string, target: string): "speech" | "text" | "none"}} Offered */

// Where no node is connected yet people hear each other all the same, and have to name a language.
const COMMON = ["en", "zh", "es", "fr", "de", "pt", "ja", "ko", "ru", "ar", "hi", "it"];

/**
 * @param {Offered} offers
 * @param {string} chosen
 */
export function offered({ languages }, chosen) {
  const known = languages.length ? languages : COMMON;
  return [...new Set([...known, ...(chosen ? [chosen] : [])])];
}

/**
 * The first of the browser's languages that is offered; else the first one there is.
 * @param {string[]} codes
 * @param {readonly string[]} wanted such as pt-BR
 */
export function native(codes, wanted) {
  for (const code of wanted) {
    const found = codes.find((one) => one === code) ?? codes.find((one) => one === code.split("-")[0]);
    if (found) return found;
  }
  return codes[0] ?? "en";
}

/**
 * A session needs a target; in a room the others decide, so it matters only to a person who is alone there.
 * @param {Offered} offers
 * @param {string} language
 */
export function partner(offers, language) {
  const others = offers.languages.filter((code) => code !== language);
  return others.find((code) => offers.of(language, code) !== "none") ?? others[0] ?? (language === "en" ? "zh" : "en");
}

/**
 * Why nothing is translated for a person now, as a word; empty if something is.
 * @param {Offered} offers
 * @param {string} language
 */
export function hindrance(offers, language) {
  if (!offers.languages.length) return "no_nodes";
  const isServed = offers.languages.some((code) => code !== language && offers.of(code, language) !== "none");
  return isServed ? "" : "unserved";
}
