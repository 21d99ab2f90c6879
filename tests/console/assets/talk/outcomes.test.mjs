import assert from "node:assert/strict";
import { test } from "node:test";

import { Outcomes } from "../../../../src/lingua_scheduler/console/assets/talk/outcomes.js";

test("an outcome counts once, also when later ones overtake it", () => {
  const outcomes = new Outcomes();
  assert.equal(outcomes.last, null);
  outcomes.announce(0);
  assert(outcomes.add(1));
  assert.equal(outcomes.last, -1, "0 is still missing");
  assert(outcomes.add(0));
  assert.equal(outcomes.last, 1);
  assert(!outcomes.add(0));
  assert(!outcomes.add(1));
});

test("it is complete when all that was announced has come", () => {
  const outcomes = new Outcomes();
  assert(outcomes.isEmpty);
  outcomes.announce(3);
  assert(!outcomes.isEmpty);
  assert(!outcomes.isComplete);
  outcomes.add(3);
  assert(outcomes.isComplete);
  outcomes.resumed(6);
  assert(!outcomes.isComplete, "the session has heard two more");
});

test("where nobody announces utterances nobody knows whether it is complete", () => {
  const outcomes = new Outcomes();
  outcomes.add(0);
  outcomes.resumed(1);
  assert(!outcomes.isComplete);
});
