import assert from "node:assert/strict";
import { test } from "node:test";

import { usableChoices as usable } from "../../../../src/lingua_scheduler/console/assets/talk/choices.js";

const DEFAULTS = { a: "", b: "", interface: "", layout: "", size: 1, isMuted: false };

test("what was chosen is kept", () => {
  const chosen = { a: "en", b: "pt", interface: "zh", layout: "face", size: 3, isMuted: true };
  assert.deepEqual(usable(JSON.stringify(chosen)), chosen);
});

test("what cannot be used is not, and the rest is", () => {
  for (const layout of ["none", "", 7, null, "FACE"]) {
    assert.deepEqual(usable(JSON.stringify({ layout, a: "en" })), { ...DEFAULTS, a: "en" });
  }
  for (const size of [-1, 4, 1.5, "2", null]) assert.equal(usable(JSON.stringify({ size })).size, 1);
  assert.deepEqual(usable(JSON.stringify({ unknown: 1, isMuted: "yes" })), DEFAULTS);
});

test("what is no list of choices counts as none", () => {
  for (const text of [null, "", "{", "null", "7", "[]"]) assert.deepEqual(usable(text), DEFAULTS);
});
