import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

import { recall, remember } from "../../../../src/lingua_scheduler/console/assets/shared/storage.js";

afterEach(() => {
  Reflect.deleteProperty(globalThis, "localStorage");
});

/** @param {object} storage */
function browserWith(storage) {
  Object.defineProperty(globalThis, "localStorage", { value: storage, configurable: true });
}

test("what is remembered is recalled under the pages' own prefix", () => {
  /** @type {Map<string, string>} */
  const kept = new Map();
  browserWith({
    setItem: (/** @type {string} */ key, /** @type {string} */ value) => kept.set(key, value),
    getItem: (/** @type {string} */ key) => kept.get(key) ?? null,
  });
  remember("span", 30);
  assert.deepEqual([...kept], [["lingua.span", "30"]]);
  assert.equal(recall("span"), "30");
  assert.equal(recall("other"), null);
});

test("a browser that keeps nothing only forgets", () => {
  const refuse = () => {
    throw new Error("denied");
  };
  browserWith({ setItem: refuse, getItem: refuse });
  remember("theme", "dark");
  assert.equal(recall("theme"), null);
});
