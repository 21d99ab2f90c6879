// Wide nodes: each serves thousands of pairs, so they are told by their languages, and a pair is worked out when asked for.
import { languageName, number, pairName } from "./format.js";
import { t } from "./words.js";
import { world } from "./world.js";

/** Whether these nodes serve a pair, as "speech" or at least as "text". */
export function reaches(wide, src, tgt, facet) {
  if (!wide.sources.includes(src) || !wide[facet].includes(tgt)) return false;
  return src === tgt || wide.translations === null || (wide.translations[src] ?? []).includes(tgt);
}

/** What is known of a pair, also of one that is not listed because only wide nodes serve it. */
export function lookUp(key) {
  const listed = world.pairs.get(key);
  if (listed !== undefined) return listed;
  const [src = "", tgt = ""] = key.split(":");
  const look = { src, tgt, nodes: 0, slots: 0, free: 0, text_nodes: 0, hangs_on: "" };
  let isServed = false;
  for (const wide of world.wide.values()) {
    if (!reaches(wide, src, tgt, "text")) continue;
    isServed = true;
    look.text_nodes += wide.text_nodes;
    if (!reaches(wide, src, tgt, "speech")) continue;
    look.hangs_on = look.nodes + wide.nodes === 1 ? look.hangs_on || wide.hangs_on : "";
    for (const name of ["nodes", "slots", "free"]) look[name] += wide[name];
  }
  return isServed ? look : undefined;
}

export function wideInWords(wide) {
  const values = { sources: number(wide.sources.length), targets: number(wide.speech.length) };
  if (wide.translations === null) return t("wide.any", values);
  return t("wide.some", { ...values, pairs: number(wide.pairs) });
}

export function roomInWords(wide) {
  const values = { free: number(wide.free), slots: number(wide.slots) };
  return `${t("wide.nodes", { n: wide.nodes, count: number(wide.nodes) })}, ${t("pairs.free_of", values)}`;
}

/** How many pairs wide nodes serve, as far as one group alone serves them. */
export function widePairs() {
  let count = 0;
  for (const wide of world.wide.values()) count = Math.max(count, wide.nodes ? wide.pairs : 0);
  return count;
}

const ARROW = /\s*(?:→|->|:)\s*/;

/** What somebody searches for: words, and with an arrow between two of them which is spoken and which is heard. */
export function searched(q) {
  const text = q.trim().toLowerCase();
  const [from, to] = text.split(ARROW);
  return {
    words: text.split(ARROW).join(" ").split(/\s+/).filter(Boolean),
    from: to === undefined ? "" : from,
    to: to ?? "",
  };
}

/** Pairs of wide nodes that match, at most so many, without those that are listed anyway. */
export function search({ words, from, to }, most) {
  const found = new Map();
  if (!words.length) return found;
  for (const wide of world.wide.values()) {
    const codes = [...new Set([...wide.sources, ...wide.text])];
    const matching = new Map([...words, from, to].map((word) => [word, matches(codes, word)]));
    for (const src of wide.sources) {
      for (const tgt of wide.text) {
        const key = `${src}:${tgt}`;
        if (found.size >= most) return found;
        if (src === tgt || world.pairs.has(key) || found.has(key)) continue;
        const isAsked = to
          ? matching.get(from).has(src) && matching.get(to).has(tgt)
          : words.every((word) => matching.get(word).has(src) || matching.get(word).has(tgt));
        if (isAsked && reaches(wide, src, tgt, "text")) found.set(key, lookUp(key));
      }
    }
  }
  return found;
}

/** A code stands for itself alone; else languages are found by a part of their name. */
function matches(codes, word) {
  const exact = codes.filter((code) => code.toLowerCase() === word);
  return new Set(exact.length ? exact : codes.filter((code) => languageName(code).toLowerCase().includes(word)));
}

/** Whether a listed pair matches. */
export function isFound(pair, { words, from, to }) {
  const key = `${pair.src}:${pair.tgt}`;
  const found = `${key} ${pairName(key)} ${pair.hangs_on}`.toLowerCase();
  if (!words.every((word) => found.includes(word))) return false;
  return !to || (isNamed(pair.src, from) && isNamed(pair.tgt, to));
}

function isNamed(code, word) {
  return code.toLowerCase().startsWith(word) || languageName(code).toLowerCase().includes(word);
}
