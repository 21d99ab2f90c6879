// What several tests need: the sources' own types of messages, made up, and a world without a browser.
import { readFileSync } from "node:fs";
import { mock } from "node:test";

/** @import {Moment, NodeLook, PairLook} from "../../../src/lingua_scheduler/console/assets/shared/types" */
/** @import {Picture, WideLook} from "../../../src/lingua_scheduler/console/assets/shared/types" */

const ASSETS = new URL("../../../src/lingua_scheduler/console/assets/", import.meta.url);

/**
 * @param {string} name
 * @returns {Record<string, string>}
 */
export function dictionary(name) {
  return JSON.parse(readFileSync(new URL(`dashboard/${name}.json`, ASSETS), "utf-8"));
}

/**
 * The names of the values in a text.
 * @param {string} text
 */
export function values(text) {
  return [...new Set([...text.matchAll(/\{(\w+)[}?]/g)].map((match) => match[1]))].sort();
}

/** All clocks and timers stand still; returns what lets time pass. */
export function stopTime() {
  let elapsedMs = 1_000_000;
  mock.timers.enable({ apis: ["setTimeout", "setInterval", "Date"], now: elapsedMs });
  mock.method(performance, "now", () => elapsedMs);
  return async (/** @type {number} */ ms) => {
    for (let left = ms; left > 0; left -= 50) {
      const step = Math.min(50, left);
      elapsedMs += step;
      mock.timers.tick(step);
      await settle();
    }
  };
}

export function restoreTime() {
  mock.timers.reset();
  mock.restoreAll();
}

/** Lets everything that waits for a promise go on. */
export async function settle() {
  for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
}

/**
 * @param {Partial<NodeLook>} more
 * @returns {NodeLook}
 */
export function node(more) {
  return {
    ...{ node_id: "n", instance_id: "i", state: "ready", shard: 0, max_jobs: 4, held: 0, free: 4 },
    ...{ seen_at_ms: 0, alive_until_ms: 0, quarantined_until_ms: 0, unavailable: [], speech: [], text: [] },
    ...{ services: [], version: "", platform: "", cpu: null, memory: null, gpu: null, wide: "", level: null },
    ...more,
  };
}

/**
 * @param {string} name src:tgt
 * @param {Partial<PairLook>} [more]
 * @returns {PairLook}
 */
export function pair(name, more = {}) {
  const [src, tgt] = name.split(":");
  return { src, tgt, nodes: 1, slots: 10, free: 10, text_nodes: 1, hangs_on: "", room: "wide", level: null, ...more };
}

/**
 * @param {Partial<WideLook>} more
 * @returns {WideLook}
 */
export function wide(more) {
  return {
    ...{ name: "*", sources: ["en", "de"], text: ["en", "de", "fr"], speech: ["en", "de"], translations: null },
    ...{ pairs: 2, nodes: 1, slots: 4, free: 3, text_nodes: 1, hangs_on: "", room: "wide", level: null },
    ...more,
  };
}

/**
 * @param {number} atMs
 * @param {Partial<Moment>} [more]
 * @returns {Moment}
 */
export function moment(atMs, more = {}) {
  return {
    ...{ at_ms: atMs, done_per_s: 0, no_text_per_s: 0, failed_per_s: 0, cancelled_per_s: 0, retries_per_s: 0 },
    ...{ p50_ms: null, p95_ms: null, p99_ms: null, sessions: 0, jobs_waiting: 0, slots_taken: 0, slots_total: 0 },
    ...more,
  };
}

/**
 * @param {Partial<Picture>} more
 * @returns {Picture}
 */
export function picture(more) {
  return {
    ...{ serial: 1, at_ms: 1_000, is_stale: false, made_by: "i", release: "1", redis_version: "7", now: moment(1_000) },
    ...{ jobs_ended: {}, session_languages: {}, nodes: [], pairs: [], instances: [], leader: null, map_version: 1 },
    ...{ map_made_at_ms: 0, dead_letters: 0, failures: [], slow: [], alarms: [] },
    ...{ verdict: null, needs_look: null },
    ...more,
  };
}
