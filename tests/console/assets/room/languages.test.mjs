import assert from "node:assert/strict";
import { test } from "node:test";

import { hindrance, native, offered, partner } from "../../../../src/lingua_scheduler/console/assets/room/languages.js";

/**
 * @param {string[]} pairs
 * @returns {{languages: string[], of(source: string, target: string): "speech" | "text" | "none"}}
 */
function offers(...pairs) {
  const languages = [...new Set(pairs.flatMap((pair) => pair.split(":")))];
  return { languages, of: (source, target) => (pairs.includes(`${source}:${target}`) ? "speech" : "none") };
}

test("what nodes serve is offered, and what was chosen before", () => {
  assert.deepEqual(offered(offers("en:pt"), "ja"), ["en", "pt", "ja"]);
  assert(offered(offers(), "").includes("en"));
});

test("at first the browser's language is chosen, where it is offered", () => {
  assert.equal(native(["en", "pt", "zh"], ["pt-BR", "en"]), "pt");
  assert.equal(native(["en", "zh-TW", "zh"], ["zh-TW"]), "zh-TW");
  assert.equal(native(["en", "zh"], ["fi"]), "en");
});

test("a person who is alone is translated into something", () => {
  assert.equal(partner(offers("en:pt", "pt:de"), "en"), "pt");
  assert.equal(partner(offers(), "en"), "zh");
  assert.equal(partner(offers(), "zh"), "en");
});

test("it is told when nothing is translated for a person", () => {
  assert.equal(hindrance(offers(), "en"), "no_nodes");
  assert.equal(hindrance(offers("en:pt"), "pt"), "");
  assert.equal(hindrance(offers("en:pt"), "en"), "unserved");
});
