// What can be asked about one node: its languages, its pairs, the words it is found by.
import { world } from "./world.js";

/** @import {NodeLook, WideLook} from "../shared/types" */

/** @typedef {{size: number, has(pair: string): boolean}} PairSet */
/** @typedef {{languages: string[], speech: PairSet, text: PairSet, found: string}} Facts */

/** @type {WeakMap<NodeLook, Facts>} */
const facts = new WeakMap();

/**
 * Codes of the languages a node serves, and what it can be found by; kept as long as the node is the same.
 * @param {NodeLook} node
 * @returns {Facts}
 */
export function factsOf(node) {
  const known = facts.get(node) ?? gathered(node);
  facts.set(node, known);
  return known;
}

/**
 * @param {NodeLook} node
 * @returns {Facts}
 */
function gathered(node) {
  const wide = world.wide.get(node.wide);
  const languages = new Set(wide ? [...wide.sources, ...wide.text] : []);
  for (const pair of node.text.length ? node.text : node.speech) {
    for (const code of pair.split(":")) languages.add(code);
  }
  const codes = [...languages].sort();
  const found = [node.node_id, node.instance_id, node.state, node.platform, node.version, ...node.services, ...codes];
  return {
    languages: codes,
    speech: wide ? allOf(wide, "speech") : new Set(node.speech),
    text: wide ? allOf(wide, "text") : new Set(node.text),
    found: found.join(" ").toLowerCase(),
  };
}

/**
 * The pairs of a wide node, to be asked as a set is.
 * @param {WideLook} wide
 * @param {"speech" | "text"} facet
 * @returns {PairSet}
 */
function allOf(wide, facet) {
  const sources = new Set(wide.sources);
  const targets = new Set(wide[facet]);
  const isAny = (/** @type {string} */ src, /** @type {string} */ tgt) =>
    src === tgt || wide.translations === null || wide.translations[src]?.includes(tgt);
  let size = sources.size * targets.size;
  if (wide.translations !== null) {
    const heard = Object.entries(wide.translations).flatMap(([, some]) => some.filter((tgt) => targets.has(tgt)));
    size = heard.length + wide.sources.filter((src) => targets.has(src)).length;
  }
  return {
    size,
    has(pair) {
      const [src, tgt] = pair.split(":");
      return sources.has(src) && targets.has(tgt) && Boolean(isAny(src, tgt));
    },
  };
}
