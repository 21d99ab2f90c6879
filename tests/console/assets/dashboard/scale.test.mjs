import assert from "node:assert/strict";
import { test } from "node:test";

import { ceiling, nearest, pieces, thinned } from "../../../../src/lingua_scheduler/console/assets/dashboard/scale.js";
import { moment } from "../support.mjs";

/** @import {Series} from "../../../../src/lingua_scheduler/console/assets/dashboard/scale.js" */

/** @type {Series[]} */
const P95 = [{ name: "p95", of: (one) => one.p95_ms }];

test("the axis ends at the next round number", () => {
  const ends = [0, 0.03, 1, 1.1, 6.5, 9, 173, 200, 201].map(ceiling);
  assert.deepEqual(ends, [1, 0.03, 1, 2, 8, 10, 200, 200, 300]);
});

test("few moments stay as they are", () => {
  const samples = thinned([moment(1, { p95_ms: 5 }), moment(2)], P95);
  assert.deepEqual(samples, [
    { at_ms: 1, values: [5] },
    { at_ms: 2, values: [null] },
  ]);
});

test("many become 240 at most, and a peak does not vanish", () => {
  const moments = Array.from({ length: 1_000 }, (_, at) => moment(at, { p95_ms: at === 500 ? 900 : 1 }));
  const samples = thinned(moments, P95);
  assert(samples.length <= 240);
  assert.equal(Math.max(...samples.flatMap(({ values }) => values[0] ?? [])), 900);
  assert.equal(samples[samples.length - 1].at_ms, 999);
});

test("no moments make no samples", () => {
  assert.deepEqual(thinned([], P95), []);
});

test("a hole in time begins a new piece; an unknown value alone does not", () => {
  const samples = [
    { at_ms: 0, values: [1] },
    { at_ms: 10, values: [null] },
    { at_ms: 20, values: [2] },
    { at_ms: 100, values: [3] },
  ];
  const found = pieces(samples, 0, 50).map((piece) => piece.map(({ value }) => value));
  assert.deepEqual(found, [[1, 2], [3]]);
});

test("the nearest sample is found, the earlier of two that are as near", () => {
  const samples = [0, 10, 20].map((at) => ({ at_ms: at, values: [] }));
  assert.deepEqual([-5, 4, 5, 6, 99].map((at) => nearest(samples, at)), [0, 0, 0, 1, 2]);
});
