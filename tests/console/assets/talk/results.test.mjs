import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Conversation } from "../../../../src/lingua_scheduler/console/assets/talk/conversation.js";
import { Results } from "../../../../src/lingua_scheduler/console/assets/talk/results.js";
import { restoreTime, settle, stopTime } from "../support.mjs";

const PLAYED = /** @type {string[]} */ ([]);
const direction = /** @type {any} */ ({ source: "en", target: "zh", side: "a" });
const announcer = /** @type {any} */ ({ append() {}, children: [] });
/** @type {Conversation} */
let conversation;
let muted = 0;

/** Decodes samples at once, a WAV file after a while, and nothing else. */
const sound = /** @type {any} */ ({
  context: {
    createBuffer: (/** @type {number} */ _channels, /** @type {number} */ length) => ({
      length,
      getChannelData: () => new Float32Array(length),
    }),
    decodeAudioData: async (/** @type {ArrayBuffer} */ bytes) => {
      if (bytes.byteLength < 4) throw new Error("not a sound");
      await settle();
      return { length: "wav" };
    },
  },
  player: { add: (/** @type {any} */ clip) => PLAYED.push(`${clip.buffer.length}`) },
});

/** @type {Results} */
let results;

beforeEach(() => {
  stopTime();
  PLAYED.length = 0;
  muted = 0;
  Object.assign(globalThis, { document: { createElement: () => ({}) } });
  conversation = new Conversation(() => {});
  results = new Results(conversation, sound, announcer, () => (muted += 1));
});
afterEach(restoreTime);

/**
 * @param {number} index
 * @param {object} [more]
 * @returns {any}
 */
function result(index, more = {}) {
  const texts = { text_asr: `heard ${index}`, text_translated: `said ${index}`, tts_audio: "", tts_format: "pcm16" };
  return { type: "translation_result", utterance_index: index, ...texts, ...more };
}

/** @param {number} samples */
function speech(samples) {
  return btoa("\0\0".repeat(samples));
}

test("texts go to the sentence with their number", () => {
  results.partial(direction, { type: "asr_partial", utterance_index: 0, text: "hel" });
  assert.deepEqual([conversation.all[0].heard, conversation.all[0].state], ["hel", "listening"]);
  results.outcome(direction, result(0));
  assert.deepEqual([conversation.all[0].translated, conversation.all[0].state], ["said 0", "done"]);
});

test("a partial text that comes late changes nothing", () => {
  results.outcome(direction, result(0));
  results.partial(direction, { type: "asr_partial", utterance_index: 0, text: "hel" });
  assert.equal(conversation.all[0].heard, "heard 0");
});

test("speech is played in the order of its texts", async () => {
  results.outcome(direction, result(0, { tts_audio: btoa("RIFF"), tts_format: "wav" }));
  results.outcome(direction, result(1, { tts_audio: speech(3) }));
  await settle();
  await settle();
  assert.deepEqual(PLAYED, ["wav", "3"]);
});

test("speech that cannot be decoded is told, and the next one is played", async () => {
  results.outcome(direction, result(0, { tts_audio: btoa("?"), tts_format: "mp3" }));
  results.outcome(direction, result(1, { tts_audio: speech(3) }));
  await settle();
  assert.equal(muted, 1);
  assert.deepEqual(PLAYED, ["3"]);
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
    if (code) results.trouble(direction, /** @type {any} */ ({ error_code: code }));
    results.outcome(direction, { type: "missing_result", utterance_index: index, reason });
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
    results.outcome(direction, { type: "missing_result", utterance_index: index, reason: "job_failed", code });
    assert.equal(conversation.all[index].reason, expected);
  });
});
