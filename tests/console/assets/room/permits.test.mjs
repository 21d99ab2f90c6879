import assert from "node:assert/strict";
import { test } from "node:test";

import { permitOf } from "../../../../src/lingua_scheduler/console/assets/room/permits.js";

/**
 * @param {string[]} scopes
 * @param {object} [more]
 */
function holder(scopes, more = {}) {
  const who = { kind: "client", tenant: "acme", key_id: "k", subject: "ana", role: null, is_login: false, auth_mode: "auto" };
  return { ...who, scopes, ...more };
}

test("without a token of an app all is allowed", () => {
  assert.deepEqual(permitOf(null), { denial: "", mayCreate: true, code: "", isListener: false });
});

test("a token for one room opens no other, and one for listening only listens", () => {
  const one = permitOf(holder(["room:join", "session:open"], { room_code: "483920", is_listener: true }));
  assert.deepEqual(one, { denial: "", mayCreate: false, code: "483920", isListener: true });
  assert(permitOf(holder(["room:create", "room:join"])).mayCreate);
});

test("a token without the grant opens no room", () => {
  assert.equal(permitOf(holder(["session:open"])).denial, "no_rooms");
});
