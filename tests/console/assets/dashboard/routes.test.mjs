import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { current, go, href, note } from "../../../../src/lingua_scheduler/console/assets/dashboard/routes.js";

/** @type {string[]} */
let noted = [];

beforeEach(() => {
  noted = [];
  const replaceState = (/** @type {[null, string, string]} */ ...given) => noted.push(given[2]);
  Object.assign(globalThis, { location: { hash: "" }, history: { replaceState } });
});

test("an address names a view, what it is about, and what was chosen in it", () => {
  location.hash = "#/nodes/gpu%2F1?q=a+b&state=ready";
  const { name, id, query } = current();
  assert.deepEqual([name, id, query.get("q"), query.get("state")], ["nodes", "gpu/1", "a b", "ready"]);
});

test("without an address it is the overview", () => {
  assert.deepEqual([current().name, current().id], ["overview", ""]);
});

test("a lone percent sign is taken as it is", () => {
  location.hash = "#/nodes/100%";
  assert.equal(current().id, "100%");
});

test("what is not chosen is not in the address", () => {
  assert.equal(href("nodes"), "#/nodes");
  assert.equal(href("pairs", "en:zh", { q: "", as: null }), "#/pairs/en:zh");
  assert.equal(href("jobs", "a/b", { q: "x y" }), "#/jobs/a%2Fb?q=x+y");
});

test("an address leads back to what it was made of", () => {
  go("nodes", "gpu 1/2?#", { sort: "load" });
  const { name, id, query } = current();
  assert.deepEqual([name, id, query.get("sort")], ["nodes", "gpu 1/2?#", "load"]);
});

test("a choice replaces the address and adds no step to the history", () => {
  note("jobs", "", { state: "FAILED" });
  assert.deepEqual(noted, ["#/jobs?state=FAILED"]);
  assert.equal(location.hash, "");
});
