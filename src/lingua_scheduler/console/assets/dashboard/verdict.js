// The one sentence at the top: are people being translated?
import { ago, milliseconds, number, pairName, rate } from "./format.js";
import { alarmInWords } from "./telling.js";
import { t } from "./words.js";
import { now, world } from "./world.js";

/** @import {Alarm, FleetVerdict, Frame, Moment} from "../shared/types" */

const STEADY_MS = 15_000;

/**
 * `{level, sentence, detail}`; level is good, warning, critical or unknown.
 * @param {string} connection
 */
export function verdict(connection) {
  const { picture } = world;
  if (picture === null) {
    const isAway = connection === "away";
    return {
      level: isAway ? "critical" : "unknown",
      sentence: t(isAway ? "verdict.away" : "verdict.connecting"),
      detail: "",
    };
  }
  const detail = figures(picture);
  if (connection === "away") return { level: "critical", sentence: t("verdict.away"), detail: lastKnown() };
  // A scheduler of an older release does not judge.
  const told = picture.is_stale ? lastKnown() : detail;
  if (!picture.verdict) return { level: "unknown", sentence: t("verdict.connecting"), detail: told };
  return { level: shownAs(picture.verdict), sentence: inWords(picture.verdict, picture.alarms), detail: told };
}

/** @param {FleetVerdict} verdict */
function shownAs({ level }) {
  return level === null || level === "notice" ? "good" : level;
}

/**
 * The scheduler decides; here its verdict is only said in the language of the page.
 * @param {FleetVerdict} verdict
 * @param {Alarm[]} alarms
 */
function inWords({ level, code, subject, more, text }, alarms) {
  if (level === "critical") return worst(code, subject, more) ?? named(code, subject, more, alarms) ?? text;
  if (level !== "warning" || !more) return t(`verdict.${code}`);
  return t("verdict.with_warnings", { sentence: t(`verdict_now.${code}`), n: more });
}

/**
 * @param {string} code
 * @param {string} subject
 * @param {number} more
 */
function worst(code, subject, more) {
  if (code === "redis.away") return t("verdict.stale");
  if (code === "nodes.none") return t("verdict.no_nodes");
  if (code === "jobs.failing") return t("verdict.jobs_failing");
  const pair = pairName(subject);
  if (code === "pair.lost") return t(more ? "verdict.pairs_lost" : "verdict.pair_lost", { pair, n: more });
  if (code !== "pair.quarantined") return null;
  return t(more ? "verdict.pairs_quarantined" : "verdict.pair_quarantined", { pair, n: more });
}

/**
 * @param {string} code
 * @param {string} subject
 * @param {number} more
 * @param {Alarm[]} alarms
 */
function named(code, subject, more, alarms) {
  const alarm = alarms.find((one) => one.code === code && one.subject === subject);
  if (alarm === undefined) return null;
  const { title } = alarmInWords(alarm);
  return more ? t("verdict.and_more", { sentence: title, n: more }) : title;
}

/** @param {Frame} picture */
function figures({ now: moment }) {
  return [
    t("verdict.jobs", { rate: rate(mean(lately(jobsPerSecond)) ?? jobsPerSecond(moment)) }),
    t("verdict.latency", { p95: milliseconds(mean(lately(({ p95_ms: p95 }) => p95))) }),
    t("verdict.sessions", { n: moment.sessions, count: number(moment.sessions) }),
    t("verdict.slots", { taken: number(moment.slots_taken), total: number(moment.slots_total) }),
    t("verdict.nodes", { n: world.nodes.size, count: number(world.nodes.size) }),
  ].join(" · ");
}

/** @param {Moment} moment */
function jobsPerSecond(moment) {
  return moment.done_per_s + moment.no_text_per_s + moment.failed_per_s + moment.cancelled_per_s;
}

/**
 * A sentence must not flicker: what it says is that of the last few moments together.
 * @param {(moment: Moment) => number | null} of
 */
function lately(of) {
  const since = (world.picture?.at_ms ?? 0) - STEADY_MS;
  return world.history.filter((moment) => moment.at_ms > since).map(of);
}

/** @param {(number | null)[]} values */
function mean(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

function lastKnown() {
  return t("verdict.last_known", { time: ago(now() - (world.picture?.at_ms ?? 0)) });
}
