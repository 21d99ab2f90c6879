import assert from "node:assert/strict";
import { test } from "node:test";

import { isCalm, nodeCommand, obstacle } from "../../../../src/lingua_scheduler/console/assets/talk/obstacles.js";
import { Speakers } from "../../../../src/lingua_scheduler/console/assets/talk/speakers.js";

/** @param {Partial<{a: string, b: string, interface: string, layout: string}>} chosen */
function speakers(chosen = {}) {
  return new Speakers({ a: "", b: "", interface: "en", layout: "solo", ...chosen });
}

/**
 * @param {Record<string, "speech" | "text">} pairs
 * @param {object} [more]
 */
function offers(pairs, more = {}) {
  const languages = [...new Set(Object.keys(pairs).flatMap((pair) => pair.split(":")))];
  const of = (/** @type {string} */ source, /** @type {string} */ target) => pairs[`${source}:${target}`] ?? "none";
  return { languages, of, isKnown: true, isReachable: true, ...more };
}

test("at first sight the pair is one that is served, best in the page's own language and both ways", () => {
  /** @type {[Record<string, "speech" | "text">, string, string][]} */
  const cases = [
    [{ "de:en": "speech", "en:fr": "speech", "en:zh": "speech" }, "en", "zh"],
    [{ "de:en": "speech", "en:de": "speech", "en:zh": "speech" }, "en", "de"],
    [{ "zh:en": "speech" }, "zh", "en"],
    // The targets of the demo come first, whatever the order in which they are served.
    [{ "en:es": "speech", "en:pt": "speech" }, "en", "pt"],
    [{ "en:es": "speech", "en:pt": "speech", "en:zh": "speech" }, "en", "zh"],
    [{ "en:es": "speech", "en:pt": "text" }, "en", "es"],
    [{ "fr:en": "text", "pt:es": "speech" }, "pt", "es"],
    [{ "en:en": "speech", "de:fr": "text" }, "de", "fr"],
  ];
  for (const [pairs, a, b] of cases) {
    const two = speakers();
    two.settle(offers(pairs));
    assert.deepEqual(two.languages, { a, b });
  }
});

test("before any node is there no pair is chosen, and one that comes later is", () => {
  const two = speakers();
  two.settle(offers({}));
  assert(!two.areReady);
  two.settle(offers({ "ko:en": "speech" }));
  assert.deepEqual(two.languages, { a: "ko", b: "en" });
});

test("what was chosen before stays, also where no node serves it now", () => {
  const two = speakers({ a: "fr", b: "it" });
  two.settle(offers({ "en:zh": "speech" }));
  assert.deepEqual(two.languages, { a: "fr", b: "it" });
});

test("a language that is spoken comes before one that is only written", () => {
  const two = speakers();
  two.settle(offers({ "en:de": "text", "en:fr": "speech" }));
  assert.deepEqual(two.languages, { a: "en", b: "fr" });
});

test("whoever chooses the other's language means to swap", () => {
  const two = speakers({ a: "en", b: "zh" });
  two.settle(offers({}));
  two.choose("a", "zh");
  assert.deepEqual(two.languages, { a: "zh", b: "en" });
  two.swap();
  assert.deepEqual(two.pair("b"), { source: "zh", target: "en" });
});

test("across the table each reads their own language, alone everything is in the page's", () => {
  const face = speakers({ a: "en", b: "zh", layout: "face" });
  face.settle(offers({}));
  assert.deepEqual([face.reads("a"), face.reads("b")], ["en", "zh"]);
  face.choose("b", "pt-BR");
  assert.equal(face.reads("b"), "pt");
  face.choose("b", "xx");
  assert.equal(face.reads("b"), "en");
  const solo = speakers({ a: "en", b: "zh" });
  solo.settle(offers({}));
  assert.equal(solo.reads("b"), "en");
  assert(solo.areReady);
  assert(!speakers().areReady);
});

test("the first thing in the way is told", () => {
  const pair = { source: "en", target: "zh" };
  const served = offers({ "en:zh": "speech" });
  assert.equal(obstacle(pair, served, true, true), null);
  assert.equal(obstacle(pair, served, false, true), "mic_insecure");
  assert.equal(obstacle(pair, offers({}, { isKnown: false }), true, true), "");
  assert.equal(obstacle(pair, offers({}, { isKnown: false, isReachable: false }), true, true), "unreachable");
  assert.equal(obstacle(pair, { ...offers({}, { isKnown: false }), isDenied: true }, true, true), "needs_login");
  assert.equal(obstacle(pair, offers({}), true, true), "no_nodes");
  assert.equal(obstacle({ source: "en", target: "en" }, served, true, true), "same");
  assert.equal(obstacle(pair, offers({ "en:zh": "text" }), true, true), "text_only");
  const back = { source: "zh", target: "en" };
  assert.equal(obstacle(back, served, true, true), "listen_only");
  assert.equal(obstacle(back, served, true, false), "unserved");
  assert.equal(obstacle({ source: "de", target: "en" }, served, true, true), "unserved");
  assert(isCalm("listen_only"));
  assert(!isCalm("unserved"));
});

test("the command that starts a node has the address of the page", () => {
  assert.equal(nodeCommand({ protocol: "http:", host: "localhost:21030" }), "lingua node --url ws://localhost:21030");
  assert.equal(nodeCommand({ protocol: "https:", host: "a.example" }), "lingua node --url wss://a.example");
});
