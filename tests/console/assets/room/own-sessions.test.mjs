import assert from "node:assert/strict";
import { test } from "node:test";

import { keepOwnSession, ownSessions } from "../../../../src/lingua_scheduler/console/assets/room/own-sessions.js";

/** @type {Map<string, string>} */
const kept = new Map();
Object.assign(globalThis, {
  sessionStorage: {
    getItem: (/** @type {string} */ name) => kept.get(name) ?? null,
    setItem: (/** @type {string} */ name, /** @type {string} */ value) => kept.set(name, value),
  },
});

test("sessions are kept once each, and the oldest leave", () => {
  assert.deepEqual(ownSessions(), []);
  for (let number = 0; number < 60; number += 1) keepOwnSession(`s-${number}`);
  keepOwnSession("s-59");
  assert.equal(ownSessions().length, 50);
  assert.deepEqual([ownSessions()[0], ownSessions()[49]], ["s-10", "s-59"]);
});

test("what another release kept does no harm", () => {
  for (const text of ["{", "{}", "[1]", "null"]) {
    kept.set("lingua.room.sessions", text);
    assert.deepEqual(ownSessions(), []);
  }
});
