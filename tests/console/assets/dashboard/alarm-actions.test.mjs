// What can be done about an alarm, and when nothing can.
import assert from "node:assert/strict";
import { test } from "node:test";

import { allowedActions } from "../../../../src/lingua_scheduler/console/assets/dashboard/alarm-actions.js";

/** @import {Alarm} from "../../../../src/lingua_scheduler/console/assets/shared/types" */

/** @type {Alarm} */
const ALARM = {
  code: "node.lost",
  level: "warning",
  subject: "n1",
  since_ms: 1,
  text: "n1 is gone.",
  values: {},
  acknowledged_at_ms: 0,
  silenced_until_ms: 0,
  handled_by: "",
  worse_since_ms: 0,
};

test("an alarm is acknowledged once, and what is silenced can only be undone", () => {
  assert.deepEqual([...allowedActions(ALARM, false)], ["silence", "forget", "acknowledge"]);
  assert.deepEqual([...allowedActions({ ...ALARM, acknowledged_at_ms: 1 }, false)], ["silence", "forget", "reset"]);
  assert.deepEqual([...allowedActions({ ...ALARM, silenced_until_ms: 1 }, false)], ["reset"]);
});

test("nothing can be done about a count, and nothing is kept while Redis is away", () => {
  assert.equal(allowedActions({ ...ALARM, values: { more: 3 } }, false).size, 0);
  assert.equal(allowedActions(ALARM, true).size, 0);
});
