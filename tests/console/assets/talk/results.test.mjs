import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Conversation } from "../../../../src/lingua_scheduler/console/assets/talk/conversation.js";
import { Results } from "../../../../src/lingua_scheduler/console/assets/talk/results.js";
import { restoreTime, stopTime } from "../support.mjs";

const PLAYED = /** @type {string[]} */ ([]);
const direction = /** @type {any} */ ({ source: "en", target: "zh", side: "a", session: { name: "one" } });
const announcer = /** @type {any} */ ({ append() {}, children: [] });
/** @type {Conversation} */
let conversation;

const clip = /** @type {any} */ ({});

/** Plays at once, and to the end. */
const sound = /** @type {any} */ ({
  player: {
    add: (/** @type {any} */ { index }, /** @type {any} */ on, /** @type {any} */ session) => {
      on.ready(clip);
      on.started();
      PLAYED.push(`${index} ${session.name} ${conversation.all.map(({ isPlaying }) => isPlaying)}`);
      on.ended();
    },
  },
});

/** @type {Results} */
let results;

beforeEach(() => {
  stopTime();
  PLAYED.length = 0;
  Object.assign(globalThis, { document: { createElement: () => ({}) } });
  conversation = new Conversation(() => {});
  results = new Results(conversation, sound, announcer);
});
afterEach(restoreTime);

/**
 * @param {number} index
 * @param {object} [more]
 * @returns {any}
 */
function result(index, more = {}) {
  const texts = { text: `heard ${index}`, translated: `said ${index}`, speech: new Uint8Array(), speechFormat: "pcm16" };
  return { kind: "translation", index, ...texts, ...more };
}

/**
 * @param {number} index
 * @param {object} more
 * @returns {any}
 */
function gap(index, more) {
  return { kind: "gap", index, reason: "", code: "", detail: "", ...more };
}

test("texts go to the sentence with their number", () => {
  results.partial(direction, { kind: "partial", index: 0, text: "hel" });
  assert.deepEqual([conversation.all[0].heard, conversation.all[0].state], ["hel", "listening"]);
  results.outcome(direction, result(0));
  assert.deepEqual([conversation.all[0].translated, conversation.all[0].state], ["said 0", "done"]);
});

test("a partial text that comes late changes nothing", () => {
  results.outcome(direction, result(0));
  results.partial(direction, { kind: "partial", index: 0, text: "hel" });
  assert.equal(conversation.all[0].heard, "heard 0");
});

test("speech is played for its sentence, and the session that it is of is told", () => {
  results.outcome(direction, result(0));
  assert.deepEqual(PLAYED, ["0 one true"]);
  assert.deepEqual(conversation.all.map((one) => [one.clip, one.isPlaying]), [[clip, false]]);
});

test("a missing result says why, as far as anybody told", () => {
  const reasons = [
    ["gap_timeout", "", "missing_late"],
    ["no_text", "", "missing_no_text"],
    ["job_failed", "", "missing_job_failed"],
    ["job_failed", "NO_CAPABLE_NODE", "missing_NO_CAPABLE_NODE"],
    ["job_failed", "", "missing_job_failed"],
    ["job_failed", "SOMETHING_ELSE", "missing_job_failed"],
    ["job_failed", "JOB_TIMEOUT", "missing_late"],
  ];
  reasons.forEach(([reason, code, expected], index) => {
    if (code) results.trouble(direction, /** @type {any} */ ({ code }));
    results.outcome(direction, gap(index, { reason }));
    assert.equal(conversation.all[index].reason, expected);
  });
});

test("a cancelled sentence and one that took too long say so, and are not silence", () => {
  const codes = [
    ["JOB_CANCELLED", "missing_JOB_CANCELLED"],
    ["JOB_TIMEOUT", "missing_late"],
    ["NO_CAPABLE_NODE", "missing_NO_CAPABLE_NODE"],
    ["SOMETHING_ELSE", "missing_job_failed"],
  ];
  codes.forEach(([code, expected], index) => {
    results.outcome(direction, gap(index, { reason: "job_failed", code }));
    assert.equal(conversation.all[index].reason, expected);
  });
});
