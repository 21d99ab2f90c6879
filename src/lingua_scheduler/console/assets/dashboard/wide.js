// Wide nodes: each serves thousands of pairs, so they are described by their languages, and a pair is computed on request.
import { languageName, number, pairName } from "./format.js";
import { t } from "./words.js";
import { world } from "./world.js";

/** @import {PairLook, WideLook} from "../shared/types" */

/**
 * Whether these nodes serve a pair, as "speech" or at least as "text".
 * @param {WideLook} wide
 * @param {string} src
 * @param {string} tgt
 * @param {"speech" | "text"} facet
 */
export function reaches(wide, src, tgt, facet) {
  if (!wide.sources.includes(src) || !wide[facet].includes(tgt)) return false;
  return src === tgt || wide.translations === null || (wide.translations[src] ?? []).includes(tgt);
}

// The best first.
const ROOMS = ["wide", "half", "low", "full", "none"];

/**
 * A pair that no node serves.
 * @param {string} key
 * @returns {PairLook}
 */
export function unserved(key) {
  const [src = "", tgt = ""] = key.split(":");
  const none = { nodes: 0, slots: 0, free: 0, text_nodes: 0, hangs_on: "" };
  return { src, tgt, ...none, room: "none", level: "critical" };
}

/**
 * What is known of a pair, also of one that is not listed because only wide nodes serve it.
 * @param {string} key
 */
export function lookUp(key) {
  return world.pairs.get(key) ?? together(key);
}

/**
 * What all wide nodes that serve a pair have together.
 * @param {string} key
 */
function together(key) {
  const look = unserved(key);
  const able = [...world.wide.values()].filter((wide) => reaches(wide, look.src, look.tgt, "text"));
  for (const wide of able) {
    look.text_nodes += wide.text_nodes;
    if (!reaches(wide, look.src, look.tgt, "speech")) continue;
    look.hangs_on = look.nodes + wide.nodes === 1 ? look.hangs_on || wide.hangs_on : "";
    look.nodes += wide.nodes;
    look.slots += wide.slots;
    look.free += wide.free;
    // The verdict is that of the nodes with most room.
    if (ROOMS.indexOf(wide.room) < ROOMS.indexOf(look.room)) Object.assign(look, { room: wide.room, level: wide.level });
  }
  return able.length ? look : undefined;
}

/** @param {WideLook} wide */
export function wideInWords(wide) {
  const values = { sources: number(wide.sources.length), targets: number(wide.speech.length) };
  if (wide.translations === null) return t("wide.any", values);
  return t("wide.some", { ...values, pairs: number(wide.pairs) });
}

/** @param {WideLook} wide */
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

/** @typedef {{words: string[], from: string, to: string}} Search */

const ARROW = /\s*(?:→|->|:)\s*/;

/**
 * A search: words; an arrow between two of them separates source and target language.
 * @param {string} q
 * @returns {Search}
 */
export function searched(q) {
  const text = q.trim().toLowerCase();
  const [from, to] = text.split(ARROW);
  return {
    words: text.split(ARROW).join(" ").split(/\s+/).filter(Boolean),
    from: to === undefined ? "" : from,
    to: to ?? "",
  };
}

/**
 * Matching pairs of wide nodes, at most this many, without those that are already listed.
 * @param {Search} asked
 * @param {number} most
 * @returns {Map<string, PairLook>}
 */
export function search(asked, most) {
  const found = new Map();
  if (!asked.words.length) return found;
  for (const wide of world.wide.values()) {
    for (const { src, tgt } of matching(wide, asked)) {
      const key = `${src}:${tgt}`;
      if (found.size >= most) return found;
      if (!world.pairs.has(key) && !found.has(key)) found.set(key, lookUp(key));
    }
  }
  return found;
}

/**
 * The pairs of these nodes that are asked for, one after another.
 * @param {WideLook} wide
 * @param {Search} asked
 */
function* matching(wide, { words, from, to }) {
  const codes = [...new Set([...wide.sources, ...wide.text])];
  const sets = words.map((word) => matches(codes, word));
  const [froms, tos] = [matches(codes, from), matches(codes, to)];
  const isAsked = (/** @type {string} */ src, /** @type {string} */ tgt) =>
    to ? froms.has(src) && tos.has(tgt) : sets.every((set) => set.has(src) || set.has(tgt));
  for (const src of wide.sources) {
    for (const tgt of wide.text) {
      if (src !== tgt && isAsked(src, tgt) && reaches(wide, src, tgt, "text")) yield { src, tgt };
    }
  }
}

/**
 * A code stands for itself alone; else languages are found by a part of their name.
 * @param {string[]} codes
 * @param {string} word
 */
function matches(codes, word) {
  const exact = codes.filter((code) => code.toLowerCase() === word);
  return new Set(exact.length ? exact : codes.filter((code) => languageName(code).toLowerCase().includes(word)));
}

/**
 * Whether a listed pair matches.
 * @param {PairLook} pair
 * @param {Search} asked
 */
export function isFound(pair, { words, from, to }) {
  const key = `${pair.src}:${pair.tgt}`;
  const found = `${key} ${pairName(key)} ${pair.hangs_on}`.toLowerCase();
  if (!words.every((word) => found.includes(word))) return false;
  return !to || (isNamed(pair.src, from) && isNamed(pair.tgt, to));
}

/**
 * @param {string} code
 * @param {string} word
 */
function isNamed(code, word) {
  return code.toLowerCase().startsWith(word) || languageName(code).toLowerCase().includes(word);
}
