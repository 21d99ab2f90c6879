// Which language pairs are shown: those that are served, sought or missed, and as many as fit.
import { allDetours, withDetour } from "./detours.js";
import { compare } from "./format.js";
import { SIGNS } from "./matrix.js";
import { isFound, lookUp, search, searched, unserved } from "./wide.js";
import { lastPicture, world } from "./world.js";

/** @import {PairLook} from "../shared/types" */

// Maximum drawn at once; the rest is found by searching.
const MOST_CELLS = 400;
const MOST_SOUGHT = 1_000;

/**
 * Pairs that are served, also by several jobs, and pairs without a node that are or were requested.
 * @param {string} q
 */
export function wanted(q) {
  const all = new Map([...world.pairs].filter(([, pair]) => pair.src !== pair.tgt));
  const detours = allDetours();
  for (const key of [...missed(), ...detours.keys()]) if (!all.has(key)) all.set(key, lookUp(key) ?? unserved(key));
  const asked = searched(q);
  const listed = [...all.values()].filter((pair) => isFound(pair, asked)).map((pair) => withDetour(pair, detours));
  const others = [...search(asked, MOST_SOUGHT).values()].filter((pair) => !all.has(`${pair.src}:${pair.tgt}`));
  return [...listed, ...others];
}

/** @param {PairLook[]} pairs */
export function isFitting(pairs) {
  return new Set(pairs.map(({ src }) => src)).size * new Set(pairs.map(({ tgt }) => tgt)).size <= MOST_CELLS;
}

/**
 * The pairs with the least headroom first, limited to this many cells.
 * @param {PairLook[]} pairs
 */
export function fitting(pairs) {
  const sources = new Set();
  const targets = new Set();
  const count = (/** @type {PairLook} */ { src, tgt }) =>
    (sources.size + Number(!sources.has(src))) * (targets.size + Number(!targets.has(tgt)));
  if (isFitting(pairs)) return pairs;
  return pairs.sort(byThinness).filter((pair) => {
    if (count(pair) > MOST_CELLS) return false;
    sources.add(pair.src);
    targets.add(pair.tgt);
    return true;
  });
}

const MISSED = new Set(["pair.lost", "pair.quarantined", "pair.unserved"]);

/** Pairs that people ask for, or did until they were lost. */
function missed() {
  const { alarms, session_languages: asked } = lastPicture();
  const lost = alarms.filter(({ code, subject }) => MISSED.has(code) && subject).map(({ subject }) => subject);
  return [...lost, ...Object.keys(asked).flatMap(pairsOf)];
}

/**
 * "auto:en+zh" is a conversation in both directions.
 * @param {string} key
 */
function pairsOf(key) {
  const [src, tgt = ""] = key.split(":");
  if (src !== "auto") return [key];
  const [one, other] = tgt.split("+");
  return other ? [`${one}:${other}`, `${other}:${one}`] : [];
}

/**
 * By level and name, not by every slot: rows that jump each second cannot be read.
 * @param {PairLook} one
 * @param {PairLook} other
 */
export function byThinness(one, other) {
  const levels = Object.keys(SIGNS);
  const rank = (/** @type {PairLook} */ pair) => 2 * levels.indexOf(pair.room) + Number(pair.hangs_on === "");
  return rank(one) - rank(other) || compare(`${one.src}:${one.tgt}`, `${other.src}:${other.tgt}`);
}
