import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import {
  ago,
  clock,
  compare,
  duration,
  languageName,
  milliseconds,
  number,
  pairName,
  percent,
  rate,
} from "../../../../src/lingua_scheduler/console/assets/dashboard/format.js";
import { use } from "../../../../src/lingua_scheduler/console/assets/dashboard/words.js";
import { dictionary } from "../support.mjs";

beforeEach(() => use("en", dictionary("en")));

test("numbers are grouped, and small rates and shares keep a digit", () => {
  assert.equal(number(12_345.6), "12,346");
  assert.equal(number(1.25, 1), "1.3");
  assert.deepEqual([rate(1.26), rate(12.6)], ["1.3", "13"]);
  assert.deepEqual([percent(0.051), percent(0.5)], ["5.1 %", "50 %"]);
});

test("times have the unit that suits them", () => {
  assert.equal(milliseconds(null), "–");
  assert.equal(milliseconds(999), "999 ms");
  assert.equal(milliseconds(1_234), "1.23 s");
  assert.equal(milliseconds(12_340), "12.3 s");
});

test("a duration is told in its one or two largest units", () => {
  assert.equal(duration(-5), "0 s");
  assert.equal(duration(59_000), "59 s");
  assert.equal(duration(61_000), "1 min");
  assert.equal(duration(3_660_000), "1 h 1 min");
  assert.equal(duration(49 * 3_600_000), "2 d");
});

test("what is hardly past is now", () => {
  assert.equal(ago(1_000), "just now");
  assert.equal(ago(5_000), "5 s ago");
});

test("a pair is named by its languages; a conversation goes both ways", () => {
  assert.equal(pairName("en:zh"), "English → Chinese");
  assert.equal(pairName("auto:en+zh"), "English ↔ Chinese");
  assert.equal(pairName("auto:zh"), "auto → Chinese");
  assert.equal(pairName("en:no such"), "English → no such");
});

test("each language has its own formats and names", () => {
  assert.equal(languageName("de"), "German");
  use("zh", dictionary("zh"));
  assert.equal(languageName("de"), "德语");
  assert.match(clock(0), /^\d{2}:\d{2}:\d{2}$/);
});

test("names with numbers are sorted as people count", () => {
  assert.deepEqual(["gpu-10", "gpu-9"].sort(compare), ["gpu-9", "gpu-10"]);
});
