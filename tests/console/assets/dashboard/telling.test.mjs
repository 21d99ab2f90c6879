import assert from "node:assert/strict";
import { test } from "node:test";

import { alarmInWords, eventInWords, missingWord } from "../../../../src/lingua_scheduler/console/assets/dashboard/telling.js";
import { use } from "../../../../src/lingua_scheduler/console/assets/dashboard/words.js";
import { dictionary } from "../support.mjs";

/** @import {Alarm, Happening, NodeLook, Values} from "../../../../src/lingua_scheduler/console/assets/shared/types" */

/**
 * @param {string} kind
 * @param {Values} values
 * @returns {Happening}
 */
function happening(kind, values) {
  return { at_ms: 1, kind, level: "notice", subject: "", text: "as the scheduler says it", values };
}

const MANY = { count: 34, pairs: "en:de,en:fr,en:zh" };

test("one event about many pairs names the first and counts the others", () => {
  use("en", dictionary("en"));
  const named = "English → German, English → French, English → Chinese and 31 more";
  assert.equal(eventInWords(happening("pair.served", MANY)).title, `${named} are served`);
  assert.equal(eventInWords(happening("pair.lost", MANY)).title, `${named} are no longer served`);
  const thin = { ...MANY, code: "pair.thin", node_id: "sim-1" };
  assert.equal(eventInWords(happening("alarm.raised", thin)).title, `${named} depend on sim-1 alone`);
  assert.equal(eventInWords(happening("alarm.cleared", thin)).title, `Over: ${named} depend on sim-1 alone`);
});

test("it is said in Chinese too", () => {
  use("zh", dictionary("zh"));
  const words = eventInWords(happening("pair.lost", MANY));
  assert(words.title.includes("31"), words.title);
  assert.equal(words.lang, null);
});

test("a pair without a node says why", () => {
  use("en", dictionary("en"));
  const alarms = /** @type {Alarm[]} */ (/** @type {unknown} */ ([{ code: "pair.unserved", subject: "en:ko" }]));
  const nodes = /** @type {NodeLook[]} */ (
    /** @type {unknown} */ ([{ state: "quarantined", speech: ["fr:en"] }, { state: "ready", speech: ["en:fr"] }])
  );
  assert.equal(missingWord("en:ko", alarms, nodes), "never served");
  assert.equal(missingWord("fr:en", alarms, nodes), "quarantined");
  assert.equal(missingWord("en:fr", alarms, nodes), "no node");
});

test("a lost pair whose node is drained says how to resume it, and leads to the node", () => {
  use("en", dictionary("en"));
  const about = { code: "pair.lost", level: "critical", subject: "en:fr", since_ms: 1, text: "" };
  const values = { src: "en", tgt: "fr", languages: "en,fr", lack: "drained", node_id: "n2", names: "n2", nodes: 1 };
  const drained = alarmInWords(/** @type {Alarm} */ (/** @type {unknown} */ ({ ...about, values })));
  assert.equal(drained.step, "Its only node is drained: n2. To resume it: lingua resume n2");
  assert(drained.href.includes("nodes/n2"), drained.href);
  const speaks = { src: "en", tgt: "fr", languages: "en,fr", lack: "speaks" };
  const lost = alarmInWords(/** @type {Alarm} */ (/** @type {unknown} */ ({ ...about, values: speaks })));
  assert.equal(lost.step, "No node speaks French. Start one with: lingua node --languages en,fr");
  assert(lost.href.includes("pairs/"), lost.href);
  use("zh", dictionary("zh"));
  const said = alarmInWords(/** @type {Alarm} */ (/** @type {unknown} */ ({ ...about, values }))).step;
  assert(said.includes("lingua resume n2"), said);
});
