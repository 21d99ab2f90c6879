import assert from "node:assert/strict";
import { test } from "node:test";

import { Gate } from "../../../../src/lingua_scheduler/console/assets/talk/gate.js";

/**
 * @param {number} number to tell frames apart
 * @param {number} level
 * @param {boolean} [isLast]
 */
function frame(number, level, isLast = false) {
  return { samples: Int16Array.of(number), level, isLast };
}

/**
 * @param {Gate} gate
 * @param {ReturnType<typeof frame>[]} frames
 */
function passed(gate, frames) {
  return frames.flatMap((one) => gate.pass(one)).map(({ samples, isFinal }) => [samples[0], isFinal]);
}

test("silence does not pass", () => {
  assert.deepEqual(passed(new Gate(), [frame(1, 0.001), frame(2, 0.001)]), []);
});

test("speech passes with a little of what came before it", () => {
  const frames = [1, 2, 3, 4].map((number) => frame(number, 0.001));
  assert.deepEqual(passed(new Gate(), [...frames, frame(5, 0.2)]), [
    [3, false],
    [4, false],
    [5, false],
  ]);
});

test("a pause ends the sentence, and the next one begins with the next word", () => {
  const gate = new Gate();
  passed(gate, [frame(1, 0.2)]);
  const quiet = Array.from({ length: 8 }, (_, number) => frame(number, 0.001));
  assert.deepEqual(passed(gate, quiet).map(([, isFinal]) => isFinal), [...Array(7).fill(false), true]);
  assert.deepEqual(passed(gate, [frame(9, 0.001)]), []);
  assert.deepEqual(passed(gate, [frame(10, 0.2)]), [
    [9, false],
    [10, false],
  ]);
});

test("the last frame ends the sentence", () => {
  const gate = new Gate();
  assert.deepEqual(passed(gate, [frame(1, 0.2), frame(2, 0.2, true)]), [
    [1, false],
    [2, true],
  ]);
  assert.deepEqual(passed(new Gate(), [frame(1, 0.2, true)]), [[1, true]]);
});

test("a steady noise is no speech after a while", () => {
  const gate = new Gate();
  const noise = Array.from({ length: 200 }, (_, number) => frame(number, 0.03));
  passed(gate, noise);
  assert.deepEqual(passed(gate, noise.slice(0, 20)), []);
});

test("half a minute of silence is forgetting", () => {
  const gate = new Gate();
  passed(gate, Array.from({ length: 299 }, (_, number) => frame(number, 0)));
  assert(!gate.isForgotten);
  gate.pass(frame(300, 0));
  assert(gate.isForgotten);
});
