import assert from "node:assert/strict";
import { test } from "node:test";

import { inSight } from "../../../../src/lingua_scheduler/console/assets/dashboard/virtual.js";

const VIEW = { height: 40, count: 1_000, sight: 800 };

test("at the top of the page the first rows exist, and a few below", () => {
  assert.deepEqual(inSight({ ...VIEW, top: 200 }), { first: 0, last: 28 });
});

test("scrolled down, rows above are gone but for a few", () => {
  assert.deepEqual(inSight({ ...VIEW, top: -4_000 }), { first: 96, last: 124 });
});

test("at the end there is nothing after the last row", () => {
  assert.deepEqual(inSight({ ...VIEW, top: -39_600 }), { first: 986, last: 1_000 });
});

test("a list that became short while one was far down shows its last row", () => {
  assert.deepEqual(inSight({ ...VIEW, count: 5, top: -4_000 }), { first: 4, last: 5 });
});

test("an empty list has no rows", () => {
  assert.deepEqual(inSight({ ...VIEW, count: 0, top: 0 }), { first: 0, last: 0 });
});
