// The one sentence at the top: are people being translated?
import { ago, milliseconds, number, pairName, rate } from "./format.js";
import { alarmInWords, ranked } from "./telling.js";
import { t } from "./words.js";
import { now, world } from "./world.js";

const STEADY_MS = 15_000;

/** `{level, sentence, detail}`; level is good, warning, critical or unknown. */
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
  if (picture.is_stale) return { level: "critical", sentence: t("verdict.stale"), detail: lastKnown() };
  const critical = ranked(picture.alarms).filter((alarm) => alarm.level === "critical");
  if (critical.length) return { level: "critical", sentence: worst(critical), detail };
  if (!takers().length) return { level: "critical", sentence: t("verdict.no_nodes"), detail };
  const warnings = picture.alarms.filter((alarm) => alarm.level === "warning").length;
  const sentence = t(isBusy(picture) ? "verdict.translating" : "verdict.ready");
  if (warnings) return { level: "warning", sentence: t("verdict.with_warnings", { sentence, n: warnings }), detail };
  return { level: "good", sentence, detail };
}

function isBusy({ now: moment }) {
  return moment.sessions > 0 || jobsPerSecond(moment) > 0;
}

/** The nodes that take work. */
function takers() {
  return [...world.nodes.values()].filter((node) => node.free !== null);
}

function worst(critical) {
  if (critical.some((alarm) => alarm.code === "nodes.none")) return t("verdict.no_nodes");
  const lost = critical.filter((alarm) => alarm.code === "pair.lost");
  if (lost.length && critical[0].code !== "redis.away") {
    const pair = pairName(lost[0].subject);
    return lost.length === 1 ? t("verdict.pair_lost", { pair }) : t("verdict.pairs_lost", { pair, n: lost.length - 1 });
  }
  const words = alarmInWords(critical[0]);
  return critical.length === 1 ? words.title : t("verdict.and_more", { sentence: words.title, n: critical.length - 1 });
}

function figures({ now: moment }) {
  return [
    t("verdict.jobs", { rate: rate(mean(lately(jobsPerSecond)) ?? jobsPerSecond(moment)) }),
    t("verdict.latency", { p95: milliseconds(mean(lately(({ p95_ms: p95 }) => p95))) }),
    t("verdict.sessions", { n: moment.sessions, count: number(moment.sessions) }),
    t("verdict.slots", { taken: number(moment.slots_taken), total: number(moment.slots_total) }),
    t("verdict.nodes", { n: world.nodes.size, count: number(world.nodes.size) }),
  ].join(" · ");
}

function jobsPerSecond(moment) {
  return moment.done_per_s + moment.no_text_per_s + moment.failed_per_s + moment.cancelled_per_s;
}

/** A sentence must not flicker: what it says is that of the last few moments together. */
function lately(of) {
  const since = world.picture.at_ms - STEADY_MS;
  return world.history.filter((moment) => moment.at_ms > since).map(of);
}

function mean(values) {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

function lastKnown() {
  return t("verdict.last_known", { time: ago(now() - world.picture.at_ms) });
}
