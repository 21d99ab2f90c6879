// What the page knows of the scheduler: the last picture, and what changed since it was last drawn.

const HISTORY_MS = 30 * 60_000;
const MAX_EVENTS = 500;
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
];

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
let heard = null;

export class Changed {
  constructor() {
    this.isAll = false;
    this.nodes = new Set();
    this.pairs = new Set();
    this.keys = new Set();
  }

  /** Whether any of these parts is different. */
  has(...keys) {
    return this.isAll || keys.some((key) => this.keys.has(key));
  }
}

/** The scheduler's clock, as far as it is known: people's own clocks are wrong. */
export function now() {
  return heard === null ? Date.now() : heard.atMs + (performance.now() - heard.at);
}

export function setClock(atMs) {
  heard = { atMs, at: performance.now() };
}

/** An old picture tells when it was made, not how late it is now. */
function readClock({ at_ms: atMs, is_stale: isStale }) {
  if (!isStale) setClock(atMs);
}

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

/** False when something is missing between this change and what is known. */
export function takeChange(change, changed) {
  const { picture } = world;
  if (picture === null || change.serial !== picture.serial + 1) return false;
  for (const key of ["serial", "at_ms", "is_stale", "now"]) picture[key] = change[key];
  for (const key of WHOLE) {
    if (key in change) {
      picture[key] = change[key];
      changed.keys.add(key);
    }
  }
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

function takeEntries(entries, given, changed) {
  for (const [key, value] of Object.entries(given ?? {})) {
    if (value === null) entries.delete(key);
    else entries.set(key, value);
    changed.add(key);
  }
}

/** Their languages came with the name; only how busy they are changes. */
function takeWide({ wide, wide_loads: loads = {} }, changed) {
  for (const [name, [nodes, slots, free, textNodes, only]] of Object.entries(loads)) {
    const known = world.wide.get(name);
    if (known) world.wide.set(name, { ...known, nodes, slots, free, text_nodes: textNodes, hangs_on: only });
  }
  takeEntries(world.wide, wide, new Set());
  if (wide || Object.keys(loads).length) changed.keys.add("wide");
}

function takeLoad(id, [held, free, seenAtMs, cpu, memory, gpu], changed) {
  const node = world.nodes.get(id);
  if (node === undefined) return;
  // How long it lives is counted from its last sign of life.
  node.alive_until_ms += Math.max(0, seenAtMs - node.seen_at_ms);
  Object.assign(node, { held, free, seen_at_ms: seenAtMs, cpu, memory, gpu });
  changed.keys.add("loads");
}

function takeMoment(moment) {
  world.history.push(moment);
  const oldest = moment.at_ms - HISTORY_MS;
  let gone = 0;
  while (world.history[gone].at_ms < oldest) gone += 1;
  if (gone) world.history.splice(0, gone);
}

function takeEvents(events, changed) {
  if (!events.length) return;
  world.events.push(...events);
  if (world.events.length > MAX_EVENTS) world.events.splice(0, world.events.length - MAX_EVENTS);
  changed.keys.add("events");
}

/** Codes of the languages a node serves, and what it can be found by; kept as long as the node is the same. */
const facts = new WeakMap();

export function factsOf(node) {
  if (!facts.has(node)) facts.set(node, gathered(node));
  return facts.get(node);
}

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

/** The pairs of a wide node, to be asked as a set is. */
function allOf(wide, facet) {
  const sources = new Set(wide.sources);
  const targets = new Set(wide[facet]);
  const isAny = (src, tgt) => src === tgt || wide.translations === null || wide.translations[src]?.includes(tgt);
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

export function alarmsAbout(subject) {
  return (world.picture?.alarms ?? []).filter((alarm) => alarm.subject === subject);
}

const SICK = new Set(["quarantined", "degraded", "probation"]);

/** Nodes somebody should look at: sick by their state or by an alarm, then those that could be resumed. */
export function sickNodes() {
  const alarms = world.picture?.alarms ?? [];
  const named = new Set(alarms.filter((alarm) => alarm.code.startsWith("node.")).map((alarm) => alarm.subject));
  const isMissed = alarms.some((alarm) => alarm.code === "nodes.none");
  const sick = [];
  const resting = [];
  for (const node of world.nodes.values()) {
    if (SICK.has(node.state) || named.has(node.node_id)) sick.push(node);
    else if (node.state === "draining" && (isMissed || node.held === 0)) resting.push(node);
  }
  return [...sick, ...resting];
}

/** How much of a pair is left, from 0 (nothing) to 1. */
export function headroom(pair) {
  return pair.slots ? pair.free / pair.slots : 0;
}

export function headroomLevel(pair) {
  if (!pair.nodes) return "none";
  if (!pair.free) return "full";
  const left = headroom(pair);
  if (left < 0.2) return "low";
  return left < 0.5 ? "half" : "wide";
}
