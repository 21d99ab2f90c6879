// What the page offers follows from what the scheduler said that this person may do.
import assert from "node:assert/strict";
import { afterEach, mock, test } from "node:test";

import { learn, may, mayLookAtAccess } from "../../../../src/lingua_scheduler/console/assets/dashboard/person.js";
import { post } from "../../../../src/lingua_scheduler/console/assets/dashboard/api.js";
import { problemWords } from "../../../../src/lingua_scheduler/console/assets/dashboard/telling.js";
import { use } from "../../../../src/lingua_scheduler/console/assets/dashboard/words.js";

afterEach(() => mock.restoreAll());

/**
 * @param {number} status
 * @param {unknown} body
 */
function answer(status, body) {
  mock.method(globalThis, "fetch", () => Promise.resolve(new Response(JSON.stringify(body), { status })));
}

/** @param {...string} scopes */
async function known(...scopes) {
  answer(200, { scopes });
  assert(await learn());
}

test("nothing is offered to a viewer but looking", async () => {
  await known("fleet:read", "metrics:read");
  assert(may("fleet:read"));
  for (const scope of ["fleet:operate", "keys:read", "keys:write", "audit:read"]) assert(!may(scope), scope);
  assert(!mayLookAtAccess());
});

test("an auditor has the audit log and no keys", async () => {
  await known("fleet:read", "audit:read");
  assert(mayLookAtAccess());
  assert(!may("keys:read"));
});

test("who is not known any more may do nothing, and who cannot be asked keeps what they had", async () => {
  await known("fleet:read", "keys:read");
  answer(503, {});
  assert(await learn());
  assert(may("keys:read"));
  answer(401, {});
  assert(!(await learn()));
  assert(!may("keys:read"));
});

test("what is refused all the same is said in plain words", async () => {
  use("en", { "error.not_allowed": "You may not do this: {why}" });
  answer(403, { error: "PERMISSION_DENIED", detail: "the credential lacks the scope fleet:operate" });
  const error = await post("v1/nodes/n/drain").catch((/** @type {unknown} */ refused) => refused);
  assert.equal(problemWords(error), "You may not do this: the credential lacks the scope fleet:operate");
});
