import assert from "node:assert/strict";
import { test } from "node:test";

import { usableChoices } from "../../../../src/lingua_scheduler/console/assets/room/choices.js";

test("what was chosen is kept; what cannot be used is not", () => {
  const none = usableChoices(null);
  assert.deepEqual(usableChoices(JSON.stringify({ name: "Ana", language: "pt", voices: 0.3 })), {
    ...none,
    ...{ name: "Ana", language: "pt", voices: 0.3 },
  });
  for (const wrong of [{ voices: 2 }, { voices: -1 }, { translations: "1" }, { name: "x".repeat(65) }]) {
    assert.deepEqual(usableChoices(JSON.stringify(wrong)), none);
  }
});
