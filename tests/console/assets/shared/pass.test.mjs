import assert from "node:assert/strict";
import { test } from "node:test";

import { AccessDenied } from "../../../../src/lingua_scheduler/console/assets/shared/client.js";
import { Pass } from "../../../../src/lingua_scheduler/console/assets/shared/pass.js";

const BASE = new URL("http://localhost/v1/");

/**
 * @param {number} status
 * @param {object} [body]
 */
function answers(status, body = {}) {
  /** @type {Record<string, string>[]} */
  const seen = [];
  Object.assign(globalThis, {
    fetch: async (/** @type {URL} */ _, /** @type {{headers: Record<string, string>}} */ { headers }) => {
      seen.push(headers);
      return new Response(JSON.stringify(body), { status });
    },
  });
  return seen;
}

test("the reason of a denial is known: no login, a role that may not, a token that has ended", async () => {
  const pass = new Pass(BASE);
  answers(401);
  await pass.learn();
  assert.equal(pass.denial, "needs_login");
  answers(200, { kind: "operator", scopes: ["fleet:read"] });
  await pass.learn();
  assert.equal(pass.denial, "needs_role");
  answers(200, { kind: "operator", scopes: ["tokens:mint"] });
  await pass.learn();
  assert(!pass.isDenied);
  const given = new Pass(BASE, "abc");
  answers(401);
  await given.learn();
  assert.equal(given.denial, "bad_token");
});

test("a token of an app says what its holder may do", async () => {
  const given = new Pass(BASE, "abc");
  const seen = answers(200, { kind: "client", scopes: ["room:join"], room_code: "483920", is_listener: true });
  await given.learn();
  assert.deepEqual(seen, [{ Authorization: "Bearer abc" }]);
  assert(!given.isDenied && given.holder?.is_listener);
});

test("behind a proxy that passes no such question, a token is used as it is", async () => {
  const given = new Pass(BASE, "abc");
  answers(404);
  await given.learn();
  assert(!given.isDenied && given.holder === null);
  assert(await new Pass(BASE).learn().then(() => false, () => true));
});

const denied = (/** @type {number} */ status) => new AccessDenied("X", "no", status);

test("a session that is denied says that a token is void, and then nothing is asked with it any more", async () => {
  for (const status of [401, 403, 4003, 4004, 4005]) {
    const given = new Pass(BASE, "abc");
    given.refused(denied(4007));
    assert(!given.isDenied);
    given.refused(denied(status));
    assert.equal(given.denial, "bad_token");
    const seen = answers(200, { kind: "client", scopes: [] });
    await given.learn();
    assert.equal(given.denial, "bad_token");
    assert.deepEqual(seen, []);
  }
});

test("one who was logged in may log in again", async () => {
  const pass = new Pass(BASE);
  pass.refused(denied(4004));
  assert.equal(pass.denial, "needs_login");
  answers(200, { kind: "operator", scopes: ["tokens:mint"] });
  await pass.learn();
  assert(!pass.isDenied);
});

test("a session shows the token of the app, or one that is made for each connection", async () => {
  assert.equal(new Pass(BASE, "abc").credential, "abc");
  const pass = new Pass(BASE);
  const make = /** @type {() => Promise<string>} */ (pass.credential);
  answers(200, { token: "made" });
  assert.equal(await make(), "made");
  answers(401);
  assert(await make().then(() => false, () => true));
  assert.equal(pass.denial, "needs_login");
  answers(200, { kind: "local", scopes: [] });
  await pass.learn();
  const seen = answers(200, { token: "made" });
  assert.equal(await make(), "");
  assert.deepEqual(seen, []);
});

test("another link is another token", async () => {
  const given = new Pass(BASE, "abc");
  given.refused(denied(4005));
  assert(!given.replace("abc") && given.isDenied);
  assert(given.replace("def") && !given.isDenied);
  const seen = answers(200, { kind: "client", scopes: ["room:join"] });
  await given.learn();
  assert.deepEqual(seen, [{ Authorization: "Bearer def" }]);
});

test("where no key is needed, others need no token either", async () => {
  const pass = new Pass(BASE);
  answers(200, { kind: "local", scopes: [] });
  await pass.learn();
  assert(!pass.needsToken);
  answers(200, { kind: "operator", scopes: ["tokens:mint"] });
  await pass.learn();
  assert(pass.needsToken && new Pass(BASE, "abc").needsToken);
});
