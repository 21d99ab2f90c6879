// Languages of the pages: which there are, which one a person wants, and how a text gets its values.

/** @typedef {"en" | "zh"} Language */
/** @typedef {Record<string, string | number | null | undefined>} Fillings */

/** @type {Readonly<Record<Language, string>>} */
export const LANGUAGES = { en: "English", zh: "中文" };

/**
 * Whether the pages speak it.
 * @param {string | null} code
 * @returns {code is Language}
 */
export function isOffered(code) {
  return code !== null && Object.hasOwn(LANGUAGES, code);
}

/**
 * The page's language for a code such as zh-TW; `otherwise` where the pages do not speak it.
 * @param {string} code
 * @param {Language} otherwise
 * @returns {Language}
 */
export function spoken(code, otherwise) {
  const [base] = code.split("-");
  return isOffered(base) ? base : otherwise;
}

/**
 * What was chosen before, else the first of the browser's languages that the pages speak, else English.
 * @param {string | null} chosen
 * @param {readonly string[]} wanted
 * @returns {Language}
 */
export function preferred(chosen, wanted) {
  if (isOffered(chosen)) return chosen;
  return wanted.map((code) => code.split("-")[0]).find(isOffered) ?? "en";
}

/**
 * For the attribute `lang`: Chinese is written in simplified characters here.
 * @param {Language} language
 */
export function tag(language) {
  return language === "zh" ? "zh-CN" : language;
}

/**
 * A value counts as one as a number and as people read it.
 * @param {string | number | null | undefined} value
 */
function isOne(value) {
  return value === 1 || value === "1";
}

/**
 * `{name}` stands for a value; `one|many` is decided by the value `n`, `{name?one:many}` by the value it names.
 * @param {string} template
 * @param {Fillings} values
 */
export function filled(template, values) {
  const [one, many = one] = template.split("|");
  const chosen = isOne(values.n) ? one : many;
  return chosen
    .replace(/\{(\w+)\?([^:}]*):([^}]*)\}/g, (_, name, single, several) => (isOne(values[name]) ? single : several))
    .replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));
}

/** @type {Map<string, Intl.DisplayNames>} */
const names = new Map();

/**
 * A language's name in another language; its code where the browser knows none.
 * @param {string} code
 * @param {string} locale
 */
export function languageName(code, locale) {
  try {
    const known = names.get(locale) ?? new Intl.DisplayNames([locale], { type: "language" });
    names.set(locale, known);
    return known.of(code) ?? code;
  } catch {
    return code; // a peer's idea of a language
  }
}
