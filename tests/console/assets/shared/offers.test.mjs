import assert from "node:assert/strict";
import { test } from "node:test";

import { Offers, usable } from "../../../../src/lingua_scheduler/console/assets/shared/offers.js";
import { Pass } from "../../../../src/lingua_scheduler/console/assets/shared/pass.js";
import { restoreTime, stopTime } from "../support.mjs";

test("private pools of the caller's own tenant count, those of others do not", () => {
  const wide = { name: "w", sources: ["en"], text: ["de"], speech: [], translations: null, nodes: 1 };
  const found = usable({
    pairs: { "en:zh": { speech: 1, text: 2 } },
    wide: [],
    private: {
      acme: { pairs: { "en:zh": { text: 1 }, "en:pt": { speech: 1, text: 1 } }, wide: [wide] },
      other: { pairs: { "en:fr": { text: 1 } }, wide: [] },
    },
    tenant: "acme",
  });
  assert.deepEqual(found.pairs, { "en:zh": { speech: 1, text: 3 }, "en:pt": { speech: 1, text: 1 } });
  assert.deepEqual(found.wide, [wide]);
});

test("an answer without private pools is taken as it is", () => {
  assert.deepEqual(usable({ pairs: { "en:zh": { text: 1 } } }), { pairs: { "en:zh": { text: 1 } }, wide: [] });
});

test("a token that has ended is never shown as a scheduler that does not answer", async () => {
  stopTime();
  let status = 200;
  let asked = 0;
  Object.assign(globalThis, {
    fetch: async () => {
      asked += 1;
      return new Response(JSON.stringify({ kind: "client", scopes: ["room:join"] }), { status });
    },
  });
  /** @type {string[]} */
  const told = [];
  const pass = new Pass(new URL("http://localhost/v1/"), "abc");
  const offers = new Offers(
    new URL("http://localhost/v1/pools"),
    () => told.push(pass.denial || (offers.isReachable ? "reached" : "unreachable")),
    pass,
  );
  await offers.ask();
  status = 401;
  await offers.ask();
  const before = asked;
  await offers.ask();
  assert.equal(asked, before);
  status = 200;
  offers.askWith("abc");
  assert.equal(asked, before);
  offers.askWith("def");
  assert.equal(asked, before + 1);
  assert.deepEqual(told, ["reached", "bad_token"]);
  restoreTime();
});
