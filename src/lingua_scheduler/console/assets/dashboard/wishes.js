// What a person asks of a new key, as values: from the fields of a form to what the scheduler is sent, and back.

/** @import {KeyLook} from "../shared/types" */

export const KINDS = ["client", "service", "node", "enrol", "operator", "metrics"];
export const ROLES = ["viewer", "operator", "admin", "auditor"];
export const DAY_MS = 86_400_000;
/** Labels with a field of their own. */
export const LABELS = ["region", "trust", "owner"];

/**
 * Which kinds of keys have a field; the others are for all.
 * @type {Record<string, string[]>}
 */
const OF_KINDS = {
  role: ["operator"],
  act_for: ["service"],
  signs: ["service"],
  node_id: ["node"],
  origins: ["client"],
  pairs: ["client"],
  labels: ["node", "enrol"],
  is_private: ["node", "enrol"],
  max_slots: ["node", "enrol"],
  max_nodes: ["enrol"],
  needs_approval: ["enrol"],
  is_ephemeral: ["enrol"],
  nodes_live_ms: ["enrol"],
  address: ["enrol"],
};
/** How long a key lives unless the person wants otherwise, in days; 0: until it is revoked. */
const LIVES = /** @type {Record<string, number>} */ ({ operator: 90, enrol: 7 });
const PREFIX = "lingua-join_";
/** Peers that can only be given a URL. Keys of other kinds would give too much to a reader of their logs. */
const PATHS = /** @type {Record<string, string>} */ ({ client: "/ws/session", service: "/ws/session", node: "/ws/node" });
const SCHEMES = /** @type {Record<string, string>} */ ({ "ws:": "ws:", "wss:": "wss:", "http:": "ws:", "https:": "wss:" });

/** What is wrong with a field, found before the scheduler was asked. */
export class WrongField extends Error {
  /**
   * @param {string} field
   * @param {string} word the key of the text that says it
   */
  constructor(field, word) {
    super(word);
    this.field = field;
    this.word = word;
  }
}

/**
 * @param {string} kind
 * @param {string} field
 */
export function hasField(kind, field) {
  return !(field in OF_KINDS) || OF_KINDS[field].includes(kind);
}

/** @param {string} kind */
export function defaultLife(kind) {
  return LIVES[kind] ?? 0;
}

/**
 * Several values in one field, with commas, spaces or lines between them.
 * @param {string} text
 */
export function listOf(text) {
  return [...new Set(text.split(/[\s,;]+/).filter(Boolean))];
}

/**
 * @param {Record<string, string>} named those with a field of their own
 * @param {string} others such as `rack=7, room=b`
 */
export function labelsOf(named, others) {
  const entries = Object.entries(named).map(([name, value]) => [name, value.trim()]);
  const further = others.split(/[,;\n]+/).map((text) => text.trim()).filter(Boolean).map(pairOf);
  const found = [...entries.filter(([, value]) => value), ...further];
  const labels = Object.fromEntries(found);
  if (Object.keys(labels).length < found.length) throw new WrongField("labels", "field.label_twice");
  return labels;
}

/** @param {string} text */
function pairOf(text) {
  const place = text.indexOf("=");
  if (place < 1 || place === text.length - 1) throw new WrongField("labels", "field.label_form");
  return [text.slice(0, place).trim(), text.slice(place + 1).trim()];
}

/**
 * The body of the request: what belongs to the kind, without what is empty.
 * @param {Record<string, unknown> & {kind: string}} values by the names of the scheduler
 * @returns {Record<string, unknown>}
 */
export function wishOf(values) {
  const sent = Object.entries(values).filter(
    ([name, value]) => name !== "address" && hasField(values.kind, name) && !isNothing(value),
  );
  return Object.fromEntries(sent);
}

/** @param {unknown} value a number counts, also 0: it may mean any number */
function isNothing(value) {
  if (typeof value === "object" && value !== null) return Object.keys(value).length === 0;
  return value === "" || value === false || value === undefined || value === null;
}

/**
 * The field that the words of a refusal are about; empty if they name none.
 * @param {string} detail
 * @param {readonly string[]} names
 */
export function faultyField(detail, names) {
  const found = /^(\w+)|"(\w+)|\b(?:the|of) (role|tenant)\b/g;
  for (const match of detail.matchAll(found)) {
    const name = match[1] ?? match[2] ?? match[3];
    const field = name === "expires_in_ms" ? "life" : name;
    if (names.includes(field)) return field;
  }
  return "";
}

/**
 * The address of a socket, from what people type. Throws WrongField.
 * @param {string} text `host:5010`, `https://host` or `wss://host/ws/node`
 * @param {string} path
 */
export function socketAddress(text, path) {
  try {
    const url = new URL(text.includes("://") ? text : `ws://${text}`);
    if (url.protocol in SCHEMES && url.hostname) {
      const base = url.pathname.replace(/\/+$/, "").replace(/\/ws\/(node|session)$/, "");
      return `${SCHEMES[url.protocol]}//${url.host}${base}${path}`;
    }
  } catch {
    // It is none.
  }
  throw new WrongField("address", "field.address_form");
}

/**
 * As `lingua node --join` takes it: no shell, URL or file of settings changes such a string.
 * @param {string} address
 * @param {string} key
 */
export function joinString(address, key) {
  const bytes = new TextEncoder().encode(`${address} ${key}`);
  const packed = btoa(String.fromCharCode(...bytes));
  return PREFIX + packed.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/**
 * The address with the key in it, for a peer that takes only a URL; empty for kinds that must not be in one.
 * @param {string} kind
 * @param {string} key
 * @param {string} address
 */
export function urlWithKey(kind, key, address) {
  return kind in PATHS ? `${socketAddress(address, PATHS[kind])}?access_token=${key}` : "";
}

/**
 * What limits a key, as pairs of a name and values.
 * @param {KeyLook} key
 * @returns {[string, string][]}
 */
export function limitsOf(key) {
  /** @type {[string, string][]} */
  const all = [
    ["act_for", key.act_for.join(", ")],
    ["origins", key.origins.join(", ")],
    ["pairs", key.pairs.join(", ")],
    ["networks", key.networks.join(", ")],
    ["labels", labelText(key.labels)],
    ["max_slots", key.max_slots ? String(key.max_slots) : ""],
  ];
  return all.filter(([, value]) => value);
}

/** @param {Record<string, string>} labels */
export function labelText(labels) {
  return Object.entries(labels).map(([name, value]) => `${name}=${value}`).join(", ");
}
