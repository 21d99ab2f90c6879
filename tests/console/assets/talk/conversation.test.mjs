import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Conversation } from "../../../../src/lingua_scheduler/console/assets/talk/conversation.js";
import { restoreTime, stopTime } from "../support.mjs";

/** @import {Direction} from "../../../../src/lingua_scheduler/console/assets/talk/directions.js" */

const DIRECTION = /** @type {Direction} */ (/** @type {unknown} */ ({ source: "en", target: "zh", side: "a" }));
/** @type {(ms: number) => Promise<void>} */
let pass;
/** @type {Conversation} */
let conversation;

beforeEach(() => {
  pass = stopTime();
  conversation = new Conversation(() => {});
});
afterEach(restoreTime);

function states() {
  return conversation.all.map(({ index, state }) => `${index} ${state}`);
}

test("numbers are given to sentences in the order in which they were said", () => {
  const [one, two] = [conversation.begin(DIRECTION, "a"), conversation.begin(DIRECTION, "a")];
  assert.equal(conversation.numbered(DIRECTION, 0), one);
  assert.equal(conversation.numbered(DIRECTION, 1), two);
  assert.equal(conversation.numbered(DIRECTION, 0), one);
});

test("an outcome of nothing that was begun here begins a sentence", () => {
  const found = conversation.numbered(DIRECTION, 7);
  assert.deepEqual([found.index, found.side], [7, "a"]);
});

test("a session that is gone begins its numbers anew, and the oldest are lost", () => {
  for (const index of [0, 1]) conversation.numbered(DIRECTION, index);
  conversation.change(conversation.all[0], { state: "pending" });
  conversation.restart(DIRECTION, 1);
  assert.deepEqual(states(), ["null missing", "null listening"]);
  assert.equal(conversation.all[0].reason, "lost");
});

test("what waits when all is settled was a part of another sentence", async () => {
  const [one, two] = [conversation.begin(DIRECTION, "a"), conversation.begin(DIRECTION, "a")];
  conversation.change(two, { state: "pending" });
  await pass(1_000);
  conversation.change(one, { state: "done" });
  conversation.settle(DIRECTION);
  assert.deepEqual(states(), ["null done"]);
});

test("what was said after the last outcome and has none was silence", async () => {
  conversation.change(conversation.begin(DIRECTION, "a"), { state: "done" });
  await pass(1_000);
  for (let i = 0; i < 2; i += 1) conversation.change(conversation.begin(DIRECTION, "a"), { state: "pending" });
  conversation.settle(DIRECTION);
  assert.deepEqual(states(), ["null done", "null missing"]);
  assert.equal(conversation.all[1].reason, "missing_no_text");
});

test("nobody waits longer than a minute and a half", async () => {
  conversation.change(conversation.begin(DIRECTION, "a"), { state: "pending" });
  await pass(89_000);
  assert.deepEqual(states(), ["null pending"]);
  await pass(7_000);
  assert.deepEqual(states(), ["null missing"]);
});

test("clearing keeps the sentence that is being said", () => {
  conversation.change(conversation.begin(DIRECTION, "a"), { state: "done" });
  conversation.begin(DIRECTION, "a");
  conversation.clear();
  assert.deepEqual(states(), ["null listening"]);
});

test("the oldest sentences and the oldest speech are let go", () => {
  const clip = /** @type {any} */ ({});
  for (let count = 0; count < 205; count += 1) conversation.change(conversation.begin(DIRECTION, "a"), { clip });
  assert.equal(conversation.all.length, 200);
  assert.equal(conversation.all.filter((sentence) => sentence.clip).length, 30);
});
