import assert from "node:assert/strict";
import { test } from "node:test";

import { LANGUAGES } from "../../../../src/lingua_scheduler/console/assets/shared/i18n.js";
import { choices } from "../../../../src/lingua_scheduler/console/assets/room/choices.js";
import { nameOf, readable, say, WORDS } from "../../../../src/lingua_scheduler/console/assets/room/words.js";
import { values } from "../support.mjs";

/** @param {Record<string, string>} words */
function shape(words) {
  return Object.entries(words).map(([key, text]) => `${key}(${values(text)})`).sort();
}

test("both languages say everything, with the same values, and nothing is empty", () => {
  assert.deepEqual(Object.keys(WORDS).sort(), Object.keys(LANGUAGES).sort());
  assert.deepEqual(shape(WORDS.zh), shape(WORDS.en));
  for (const words of Object.values(WORDS)) for (const [key, text] of Object.entries(words)) assert(text.trim(), key);
});

test("words and names of languages are in the language of the page", () => {
  choices.interface = "en";
  assert.equal(say("people_count", { n: 1 }), "1 person");
  assert.equal(say("people_count", { n: 5 }), "5 people");
  assert.equal(nameOf("pt"), "Portuguese");
  assert.equal(readable("房间已结束 (the room has ended)"), "the room has ended");
  choices.interface = "zh";
  assert.equal(nameOf("pt"), "葡萄牙语");
  assert.equal(readable("房间已结束 (the room has ended)"), "房间已结束");
  assert.equal(readable("something else"), "something else");
});
