// Alarms and events in words: by code and values in the chosen language, else the scheduler's own English.
import { duration, milliseconds, pairName } from "./format.js";
import { href } from "./routes.js";
import { language, t, tryT } from "./words.js";
import { now } from "./world.js";

const LEVELS = ["critical", "warning", "notice"];

/** The worst first, the longest standing first among equals; whoever needs no translation can wait. */
export function ranked(alarms) {
  const rank = (alarm) =>
    2 * LEVELS.indexOf(alarm.level) + Number("src" in alarm.values && alarm.values.src === alarm.values.tgt);
  return [...alarms].sort((one, other) => rank(one) - rank(other) || one.since_ms - other.since_ms);
}

export function alarmKey(alarm) {
  return `${alarm.code} ${alarm.subject}`;
}

/** `{title, step, href, language}`: what is wrong, what to do next, where to look. */
export function alarmInWords(alarm) {
  const values = spelled(alarm);
  const title = tryT("more" in values ? "alarm.more" : `alarm.${alarm.code}`, values);
  const step = title === null ? "" : (tryT(`step.${alarm.code}`, values) ?? "");
  return { title: title ?? alarm.text, step, href: subjectHref(alarm.code, alarm.subject), lang: spokenIn(title) };
}

export function eventInWords(event) {
  const values = spelled(event);
  // An alarm that came or went says which one it is.
  const code = String(values.code ?? event.kind);
  values.alarm = tryT(`alarm.${code}`, values) ?? undefined;
  const title = tryT(eventWords(event), values);
  return { title: title ?? event.text, href: subjectHref(code, event.subject), lang: spokenIn(title) };
}

function eventWords({ kind, values }) {
  if ("more" in values) return "event.more";
  return kind === "leader.changed" && !values.to ? "event.leader.gone" : `event.${kind}`;
}

function spokenIn(title) {
  return title === null && language() !== "en" ? "en" : null;
}

/** Values as people read them; the raw ones keep their names. */
function spelled({ subject, values }) {
  const { src, tgt } = values;
  const words = { subject, ...values };
  if (src && tgt) words.pair = pairName(`${src}:${tgt}`);
  else if (/^[a-z]{2,3}[^:]*:[a-z]{2,3}/.test(subject)) words.pair = pairName(subject);
  for (const [name, value] of Object.entries(values)) {
    if (typeof value !== "number") continue;
    if (name === "seen_at_ms") words.silent = duration(now() - value);
    else if (name.endsWith("_ms")) words[name] = milliseconds(value);
  }
  for (const name of ["from", "to"]) {
    if (typeof values[name] === "string") words[name] = tryT(`state.${values[name]}`, {}) ?? values[name];
  }
  return words;
}

function subjectHref(code, subject) {
  const noun = code.split(".")[0];
  if (noun === "letters" || noun === "leader" || noun === "instance") return href("instances");
  if (noun === "latency") return href("jobs");
  if (noun === "nodes") return href("nodes");
  if (!subject) return noun === "jobs" ? href("jobs") : "";
  const names = { pair: "pairs", node: "nodes", job: "jobs", jobs: "jobs" };
  return noun in names ? href(names[noun], subject) : "";
}

export function stateWord(state) {
  return tryT(`state.${state}`, {}) ?? state;
}

export function jobStateWord(state) {
  return tryT(`job_state.${state}`, {}) ?? state;
}

export function connectionWord(state) {
  return t(`connection.${state}`);
}
