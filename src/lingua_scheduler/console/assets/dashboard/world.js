// What the page knows of the scheduler: the last picture, and what changed since it was last drawn.

/** @import {Change, Frame, Happening, Moment, NodeLoad, NodeLook} from "../shared/types" */
/** @import {PairLook, PictureMessage, WideLook} from "../shared/types" */

const HISTORY_MS = 30 * 60_000;
const MAX_EVENTS = 500;
/** @type {readonly (keyof Frame & keyof Change)[]} */
const WHOLE = [
  "instances",
  "leader",
  "map_version",
  "map_made_at_ms",
  "dead_letters",
  "failures",
  "slow",
  "alarms",
  "jobs_ended",
  "session_languages",
  "verdict",
  "needs_look",
  "rooms",
  "detours",
];

/**
 * @typedef {object} World
 * @property {Frame | null} picture
 * @property {Map<string, NodeLook>} nodes
 * @property {Map<string, PairLook>} pairs
 * @property {Map<string, WideLook>} wide
 * @property {Moment[]} history
 * @property {Happening[]} events
 */

/** @type {World} */
export const world = {
  // Null until the first one came; its nodes and pairs are in the maps below.
  picture: null,
  nodes: new Map(),
  pairs: new Map(),
  // Nodes that serve too many pairs to list, by the name of their pool.
  wide: new Map(),
  // Oldest first, both.
  history: [],
  events: [],
};

// What the scheduler's clock said, and when it was heard.
/** @type {{atMs: number, at: number} | null} */
let clock = null;

export class Changed {
  constructor() {
    this.isAll = false;
    /** @type {Set<string>} */
    this.nodes = new Set();
    /** @type {Set<string>} */
    this.pairs = new Set();
    /** @type {Set<string>} */
    this.keys = new Set();
  }

  /**
   * Whether any of these parts is different.
   * @param {...string} keys
   */
  has(...keys) {
    return this.isAll || keys.some((key) => this.keys.has(key));
  }
}

/** The scheduler's clock, as far as it is known: people's own clocks are wrong. */
export function now() {
  return clock === null ? Date.now() : clock.atMs + (performance.now() - clock.at);
}

/** @param {number} atMs */
export function setClock(atMs) {
  clock = { atMs, at: performance.now() };
}

/**
 * An old picture tells when it was made, not how late it is now.
 * @param {{at_ms: number, is_stale: boolean}} told
 */
function readClock({ at_ms: atMs, is_stale: isStale }) {
  if (!isStale) setClock(atMs);
}

/**
 * @param {PictureMessage} message
 * @param {Changed} changed
 */
export function takePicture({ picture, history, events }, changed) {
  const { nodes, pairs, wide = [], ...rest } = picture;
  world.picture = rest;
  world.nodes = new Map(nodes.map((node) => [node.node_id, node]));
  world.pairs = new Map(pairs.map((pair) => [`${pair.src}:${pair.tgt}`, pair]));
  world.wide = new Map(wide.map((one) => [one.name, one]));
  world.history = history;
  world.events = events;
  readClock(picture);
  changed.isAll = true;
}

/**
 * False when something is missing between this change and what is known.
 * @param {Change} change
 * @param {Changed} changed
 * @returns {boolean}
 */
export function takeChange(change, changed) {
  const { picture } = world;
  if (picture === null || change.serial !== picture.serial + 1) return false;
  const { serial, at_ms, is_stale, now: moment } = change;
  Object.assign(picture, { serial, at_ms, is_stale, now: moment });
  takeWhole(picture, change, changed);
  readClock(change);
  changed.keys.add("now");
  takeWide(change, changed);
  takeEntries(world.nodes, change.nodes, changed.nodes);
  takeEntries(world.pairs, change.pairs, changed.pairs);
  if (changed.nodes.size) changed.keys.add("nodes");
  if (changed.pairs.size) changed.keys.add("pairs");
  for (const [id, load] of Object.entries(change.loads ?? {})) takeLoad(id, load, changed);
  takeMoment(change.now);
  takeEvents(change.events ?? [], changed);
  return true;
}

/**
 * @param {Frame} picture
 * @param {Change} change
 * @param {Changed} changed
 */
function takeWhole(picture, change, changed) {
  for (const key of WHOLE) {
    if (!(key in change)) continue;
    Object.assign(picture, { [key]: change[key] });
    changed.keys.add(key);
  }
}

/**
 * @template T
 * @param {Map<string, T>} entries
 * @param {Record<string, T | null> | undefined} given
 * @param {Set<string>} changed
 */
function takeEntries(entries, given, changed) {
  for (const [key, value] of Object.entries(given ?? {})) {
    if (value === null) entries.delete(key);
    else entries.set(key, value);
    changed.add(key);
  }
}

/**
 * Their languages came with the name; only how busy they are changes.
 * @param {Change} change
 * @param {Changed} changed
 */
function takeWide({ wide, wide_loads: loads = {} }, changed) {
  for (const [name, [nodes, slots, free, textNodes, only]] of Object.entries(loads)) {
    const known = world.wide.get(name);
    if (known) world.wide.set(name, { ...known, nodes, slots, free, text_nodes: textNodes, hangs_on: only });
  }
  takeEntries(world.wide, wide, new Set());
  if (wide || Object.keys(loads).length) changed.keys.add("wide");
}

/**
 * @param {string} id
 * @param {NodeLoad} load
 * @param {Changed} changed
 */
function takeLoad(id, [held, free, seenAtMs, cpu, memory, gpu], changed) {
  const node = world.nodes.get(id);
  if (node === undefined) return;
  // How long it lives is counted from its last sign of life.
  node.alive_until_ms += Math.max(0, seenAtMs - node.seen_at_ms);
  Object.assign(node, { held, free, seen_at_ms: seenAtMs, cpu, memory, gpu });
  changed.keys.add("loads");
}

/** @param {Moment} moment */
function takeMoment(moment) {
  world.history.push(moment);
  const oldest = moment.at_ms - HISTORY_MS;
  let gone = 0;
  while (world.history[gone].at_ms < oldest) gone += 1;
  if (gone) world.history.splice(0, gone);
}

/**
 * @param {Happening[]} events
 * @param {Changed} changed
 */
function takeEvents(events, changed) {
  if (!events.length) return;
  world.events.push(...events);
  if (world.events.length > MAX_EVENTS) world.events.splice(0, world.events.length - MAX_EVENTS);
  changed.keys.add("events");
}

/** The last picture. Views are made only once there is one. */
export function lastPicture() {
  if (world.picture === null) throw new Error("there is no picture yet");
  return world.picture;
}

/** @param {string} subject */
export function alarmsAbout(subject) {
  return (world.picture?.alarms ?? []).filter((alarm) => alarm.subject === subject);
}

/** Nodes that need attention according to the scheduler, the worst first. */
export function sickNodes() {
  const names = world.picture?.needs_look?.nodes ?? [];
  return names.flatMap((name) => world.nodes.get(name) ?? []);
}

/**
 * How much of a pair is left, from 0 (nothing) to 1.
 * @param {PairLook} pair
 */
export function headroom(pair) {
  return pair.slots ? pair.free / pair.slots : 0;
}
