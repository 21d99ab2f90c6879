import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Outgoing } from "../../../../src/lingua_scheduler/console/assets/talk/outgoing.js";
import { restoreTime, stopTime } from "../support.mjs";

const AUDIO = new Int16Array(1_600);
/** @type {(ms: number) => Promise<void>} */
let pass;

beforeEach(() => {
  pass = stopTime();
});
afterEach(restoreTime);

/**
 * @param {Outgoing} outgoing
 * @param {number} count
 */
function speak(outgoing, count) {
  for (let chunk = 1; chunk <= count; chunk += 1) outgoing.add(AUDIO, chunk === count);
}

/** @param {Outgoing} outgoing */
function taken(outgoing) {
  const seqs = [];
  for (let chunk = outgoing.take(); chunk; chunk = outgoing.take()) seqs.push(chunk.seq);
  return seqs;
}

test("chunks are numbered and each is sent once", () => {
  const outgoing = new Outgoing();
  speak(outgoing, 3);
  assert(outgoing.hasUnsent);
  assert.deepEqual(taken(outgoing), [0, 1, 2]);
  assert(!outgoing.hasUnsent);
  assert.equal(outgoing.take(), undefined);
});

test("an utterance waits for its answer until an outcome comes", () => {
  const outgoing = new Outgoing();
  assert(outgoing.isAnswered);
  outgoing.add(AUDIO, false);
  outgoing.answered();
  assert(!outgoing.isAnswered, "one that is being said has no outcome");
  outgoing.add(AUDIO, true);
  outgoing.answered();
  assert(outgoing.isAnswered);
});

test("it is idle when nothing is being said and nothing waits", () => {
  const outgoing = new Outgoing();
  outgoing.add(AUDIO, false);
  outgoing.take();
  assert(!outgoing.isIdle);
  outgoing.add(AUDIO, true);
  assert(!outgoing.isIdle);
  outgoing.take();
  assert(outgoing.isIdle);
});

test("half a minute that nobody takes is all it keeps", () => {
  const outgoing = new Outgoing();
  for (let chunk = 0; chunk < 299; chunk += 1) outgoing.add(AUDIO, false);
  assert(!outgoing.isFull);
  outgoing.add(AUDIO, false);
  assert(outgoing.isFull);
});

test("a session that goes on is sent what it lacks", () => {
  const outgoing = new Outgoing();
  speak(outgoing, 4);
  taken(outgoing);
  outgoing.resumed(2);
  assert.deepEqual(taken(outgoing), [2, 3]);
});

test("a session that begins anew hears again what has no outcome, counted from 0", () => {
  const outgoing = new Outgoing();
  speak(outgoing, 2);
  speak(outgoing, 3);
  taken(outgoing);
  outgoing.answered();
  assert.equal(outgoing.restarted(), 0);
  assert.deepEqual(taken(outgoing), [0, 1, 2]);
});

test("speech of more than a minute ago is lost, and counted", async () => {
  const outgoing = new Outgoing();
  speak(outgoing, 2);
  await pass(61_000);
  speak(outgoing, 2);
  assert.equal(outgoing.restarted(), 1);
  assert.deepEqual(taken(outgoing), [0, 1]);
});
