// Alarms and events in words: by code and values in the chosen language, else the scheduler's own English.
import { refusal } from "./api.js";
import { duration, languageName, milliseconds, pairName } from "./format.js";
import { href } from "./routes.js";
import { language, t, tryT } from "./words.js";
import { now } from "./world.js";

/** @import {Alarm, Happening, NodeLook, Values} from "../shared/types" */
/** @import {Fillings} from "../shared/i18n.js" */

const PAIR = /^[a-z]{2,3}[^:]*:[a-z]{2,3}/;
// Values that are states of a node.
const STATES = new Set(["from", "to"]);

/** @param {Alarm} alarm */
export function alarmKey(alarm) {
  return `${alarm.code} ${alarm.subject}`;
}

/**
 * `{title, step, href, language}`: what is wrong, what to do next, where to look.
 * @param {Alarm} alarm
 */
export function alarmInWords(alarm) {
  const values = spelled(alarm);
  const title = tryT("more" in values ? "alarm.more" : `alarm.${alarm.code}`, values);
  const { node_id: node, lack } = alarm.values;
  const step = title === null ? "" : (tryT(`step.${alarm.code}.${lack}`, values) ?? tryT(`step.${alarm.code}`, values) ?? "");
  // The next step is at the node.
  const isAtNode = alarm.code === "pair.quarantined" || lack === "drained";
  const where = isAtNode ? href("nodes", String(node)) : subjectHref(alarm.code, alarm.subject);
  return { title: title ?? alarm.text, step, href: where, lang: spokenIn(title) };
}

/** @param {Happening} event */
export function eventInWords(event) {
  const values = spelled(event);
  // An alarm that came or went says which one it is.
  const code = String(values.code ?? event.kind);
  values.alarm = tryT("count" in values ? `many.${code}` : `alarm.${code}`, values) ?? undefined;
  const title = tryT(eventWords(event), values);
  return { title: title ?? event.text, href: subjectHref(code, event.subject), lang: spokenIn(title) };
}

/** @param {Happening} event */
function eventWords({ kind, values }) {
  if ("more" in values) return "event.more";
  if ("count" in values && kind.startsWith("pair.")) return `many.${kind}`;
  return kind === "leader.changed" && !values.to ? "event.leader.gone" : `event.${kind}`;
}

/** @param {string | null} title */
function spokenIn(title) {
  return title === null && language() !== "en" ? "en" : null;
}

/**
 * Values as people read them; the raw ones keep their names.
 * @param {{subject: string, values: Values}} told
 */
function spelled({ subject, values }) {
  const { src, tgt } = values;
  /** @type {Fillings} */
  const words = { subject, ...values };
  if (src && tgt) {
    words.pair = pairName(`${src}:${tgt}`);
    words.source = languageName(String(src));
    words.target = languageName(String(tgt));
  }
  if (!words.pair && PAIR.test(subject)) words.pair = pairName(subject);
  for (const [name, value] of Object.entries(values)) {
    if (name === "seen_at_ms") words.silent = duration(now() - Number(value));
    else words[name] = spelledValue(name, value);
  }
  if ("count" in values) Object.assign(words, manyPairs(values));
  // What no node does, as a sentence.
  if (values.lack) words.lack = tryT(`lack.${values.lack}`, words) ?? "";
  return words;
}

/**
 * One event about many pairs names the first of them and counts the rest.
 * @param {Values} values
 * @returns {Fillings}
 */
function manyPairs({ count, pairs }) {
  const named = String(pairs).split(",");
  return { pairs: named.map(pairName).join(", "), rest: Number(count) - named.length };
}

/**
 * @param {string} name
 * @param {string | number} value
 */
function spelledValue(name, value) {
  if (typeof value === "number") return name.endsWith("_ms") ? milliseconds(value) : value;
  return STATES.has(name) ? stateWord(value) : value;
}

/**
 * @param {string} code
 * @param {string} subject
 */
function subjectHref(code, subject) {
  const noun = code.split(".")[0];
  if (noun === "letters" || noun === "leader" || noun === "instance") return href("instances");
  if (noun === "latency") return href("jobs");
  if (noun === "nodes") return href("nodes");
  if (!subject) return noun === "jobs" ? href("jobs") : "";
  /** @type {Record<string, string>} */
  const names = { pair: "pairs", node: "nodes", job: "jobs", jobs: "jobs" };
  return noun in names ? href(names[noun], subject) : "";
}

/**
 * Why no node takes jobs for a pair.
 * @param {string} pair as src:tgt
 * @param {readonly Alarm[]} alarms
 * @param {Iterable<NodeLook>} nodes
 */
export function missingWord(pair, alarms, nodes) {
  const about = alarms.find(({ code, subject }) => subject === pair && code.startsWith("pair."));
  // A pair that is not wanted has no alarm.
  const isResting = [...nodes].some(({ state, speech }) => state === "quarantined" && speech.includes(pair));
  const code = about?.code ?? (isResting ? "pair.quarantined" : "");
  return tryT(`missing.${code}`, {}) ?? t("headroom.none");
}

/** @param {string} state */
export function stateWord(state) {
  return tryT(`state.${state}`, {}) ?? state;
}

/** @param {string} state */
export function jobStateWord(state) {
  return tryT(`job_state.${state}`, {}) ?? state;
}

/** @param {string} state */
export function connectionWord(state) {
  return t(`connection.${state}`);
}

/**
 * Why the scheduler did not do what was asked.
 * @param {unknown} error
 */
export function problemWords(error) {
  const { status, code, message } = refusal(error);
  if (code === "PERMISSION_DENIED") return t("error.not_allowed", { why: message });
  return status === 0 ? t("error.away") : message;
}
