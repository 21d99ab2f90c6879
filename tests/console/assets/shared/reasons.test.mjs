import assert from "node:assert/strict";
import { test } from "node:test";

import { NoMicrophone } from "../../../../src/lingua_scheduler/console/assets/shared/client.js";
import { micWord, missingWord } from "../../../../src/lingua_scheduler/console/assets/shared/reasons.js";

test("silence, lateness, failures and known codes have their words", () => {
  assert.equal(missingWord("no_text", ""), "missing_no_text");
  assert.equal(missingWord("gap_timeout", "JOB_CANCELLED"), "missing_late");
  assert.equal(missingWord("job_failed", ""), "missing_job_failed");
  assert.equal(missingWord("job_failed", "toString"), "missing_job_failed");
  assert.equal(missingWord("job_failed", "JOB_TIMEOUT"), "missing_late");
  assert.equal(missingWord("job_failed", "JOB_CANCELLED"), "missing_JOB_CANCELLED");
});

test("why there is no microphone has its word", () => {
  assert.equal(micWord(new NoMicrophone("DENIED", "no")), "mic_denied");
  assert.equal(micWord(new NoMicrophone("SOMETHING_ELSE", "no")), "mic_failed");
  assert.equal(micWord(new Error("no")), "mic_failed");
});
