import assert from "node:assert/strict";
import { test } from "node:test";

import {
  filled,
  isOffered,
  languageName,
  preferred,
  spoken,
  tag,
} from "../../../../src/lingua_scheduler/console/assets/shared/i18n.js";

test("a value stands where its name is, and nothing where it is missing", () => {
  assert.equal(filled("{a} of {b}", { a: 1, b: "two" }), "1 of two");
  assert.equal(filled("{a}!", {}), "!");
});

test("one and many are decided by n, as a number and as people read it", () => {
  assert.equal(filled("one node|{n} nodes", { n: 1 }), "one node");
  assert.equal(filled("one node|{n} nodes", { n: "1" }), "one node");
  assert.equal(filled("one node|{n} nodes", { n: 12 }), "12 nodes");
  assert.equal(filled("{jobs?job:jobs}", { jobs: 1 }), "job");
  assert.equal(filled("{jobs?job:jobs}", { jobs: 2 }), "jobs");
});

test("what was chosen comes first, then the browser's languages, then English", () => {
  assert.equal(preferred("zh", ["en-GB"]), "zh");
  assert.equal(preferred("xx", ["de", "zh-TW", "en"]), "zh");
  assert.equal(preferred(null, ["de"]), "en");
  assert.equal(preferred("toString", []), "en");
});

test("a code with a region is the language without it", () => {
  assert.equal(spoken("zh-TW", "en"), "zh");
  assert.equal(spoken("de", "zh"), "zh");
  assert.equal(isOffered("de"), false);
  assert.deepEqual([tag("zh"), tag("en")], ["zh-CN", "en"]);
});

test("a language that nobody knows is called by its code", () => {
  assert.equal(languageName("de", "en"), "German");
  assert.equal(languageName("de", "zh"), "德语");
  assert.equal(languageName("not a code", "en"), "not a code");
});
