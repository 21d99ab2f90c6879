import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { asText, Transcript } from "../../../../src/lingua_scheduler/console/assets/room/transcript.js";

const ME = { id: "me", name: "Tom", language: "en", isMe: true };
const ANA = { id: "a", name: "Ana", language: "pt", isMe: false };

/** @type {Transcript} */
let transcript;

beforeEach(() => {
  transcript = new Transcript(() => {});
});

/**
 * @param {string} id
 * @param {number} index
 * @param {object} [more]
 * @returns {any}
 */
function result(id, index, more = {}) {
  const texts = { text: `dito ${index}`, translated: `said ${index}`, language: "en" };
  return { kind: "said", speaker: id, index, seq: null, ...texts, ...more };
}

/**
 * @param {string} id
 * @param {number} index
 * @param {string} text
 * @returns {any}
 */
function caption(id, index, text, isFinal = false) {
  return { kind: "caption", speaker: id, index, text, language: "pt", isFinal };
}

const texts = () => transcript.lines.map(({ text }) => text);

test("a caption becomes the translation, with what was said beside it", () => {
  transcript.caption(caption("a", 0, "di"), ANA, 1);
  transcript.caption(caption("a", 0, "dito", true), ANA, 2);
  assert.deepEqual(transcript.live.map(({ original, isFinal }) => [original, isFinal]), [["dito", true]]);
  const line = transcript.outcome(result("a", 0, { seq: 1 }), ANA, 3);
  assert.deepEqual(transcript.live, []);
  assert.deepEqual([line?.text, line?.lang, line?.original, line?.originalLang], ["said 0", "en", "dito 0", "pt"]);
});

test("an outcome comes once, and a caption behind it is too late", () => {
  assert(transcript.outcome(result("a", 0), ANA, 1));
  assert.equal(transcript.outcome(result("a", 0), ANA, 2), null);
  transcript.caption(caption("a", 0, "late"), ANA, 3);
  assert.deepEqual([texts(), transcript.live], [["said 0"], []]);
});

test("two speakers may use the same numbers", () => {
  transcript.outcome(result("a", 0), ANA, 1);
  transcript.outcome(result("b", 0, { translated: "other" }), { ...ANA, id: "b" }, 2);
  assert.deepEqual(texts(), ["said 0", "other"]);
});

test("a late outcome takes its place in the room", () => {
  for (const seq of [1, 3, 4, 2]) transcript.outcome(result("a", seq, { seq }), ANA, seq);
  assert.deepEqual(texts(), ["said 1", "said 2", "said 3", "said 4"]);
});

test("one reads one's own words as they were said, and the same language without a second text", () => {
  transcript.outcome(result("me", 0, { translated: "" }), ME, 1);
  transcript.outcome(result("a", 0, { translated: "dito 0" }), ANA, 2);
  assert.deepEqual(transcript.lines.map(({ text, original }) => [text, original]), [["dito 0", ""], ["dito 0", ""]]);
});

test("silence is shown to its speaker alone, what could not be translated to all who saw it", () => {
  const missing = { kind: "unheard", reason: "no_text", code: "", speaker: "a", index: 0, seq: null };
  assert.equal(transcript.outcome(/** @type {any} */ (missing), ANA, 1), null);
  assert.equal(transcript.outcome(/** @type {any} */ ({ ...missing, speaker: "me" }), ME, 1)?.reason, "missing_no_text");
  transcript.caption(caption("a", 1, "dito"), ANA, 2);
  const failed = { ...missing, index: 1, reason: "job_failed", code: "NO_CAPABLE_NODE" };
  const line = transcript.outcome(/** @type {any} */ (failed), ANA, 3);
  assert.deepEqual([line?.reason, line?.original], ["missing_NO_CAPABLE_NODE", "dito"]);
});

test("what is never finished is forgotten, at once when its speaker leaves", () => {
  transcript.caption(caption("a", 0, "x"), ANA, 1_000);
  transcript.caption(caption("b", 0, "y"), { ...ANA, id: "b" }, 60_000);
  transcript.forget(2_000, "b");
  assert.deepEqual(transcript.live.map(({ original }) => original), ["x"]);
  transcript.forget(92_000);
  assert.deepEqual(transcript.live, []);
});

test("messages, earlier lines and notes are in the file, without markup or speech", () => {
  transcript.earlier({ speaker: "a", name: "", text: "said", language: "en", original: "dito", seq: 1, atMs: 1 }, ANA);
  transcript.message({ kind: "message", speaker: "me", name: "", text: "<b>hi", atMs: 2 }, ME);
  transcript.note("left_note", ANA, 3);
  const text = asText(transcript.lines, (at) => `t${at}`, ({ note }) => note);
  assert.equal(text, "[t1] Ana (en): said\n        pt: dito\n[t2] Tom: <b>hi\n[t3] left_note\n");
});

test("the oldest lines and the oldest speech are forgotten", () => {
  for (let index = 0; index < 1_005; index += 1) {
    const line = transcript.outcome(result("a", index, { seq: index + 1 }), ANA, index);
    if (line) transcript.change(line, { clip: /** @type {any} */ ({}) });
  }
  assert.equal(transcript.lines.length, 1_000);
  assert.equal(transcript.lines[0].text, "said 5");
  assert.equal(transcript.lines.filter(({ clip }) => clip).length, 30);
});
