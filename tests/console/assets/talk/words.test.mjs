import assert from "node:assert/strict";
import { test } from "node:test";

import { LANGUAGES } from "../../../../src/lingua_scheduler/console/assets/shared/i18n.js";
import {
  forKeys,
  HALVES,
  isWord,
  nameOf,
  say,
  sentence,
  WORDS,
} from "../../../../src/lingua_scheduler/console/assets/talk/words.js";
import { values } from "../support.mjs";

/** @param {Partial<Record<string, string>>} words */
function shape(words) {
  return Object.entries(words).map(([key, text]) => `${key}(${values(text ?? "")})`);
}

test("English and Chinese say everything, with the same values", () => {
  assert.deepEqual(Object.keys(WORDS).sort(), Object.keys(LANGUAGES).sort());
  for (const words of Object.values(WORDS)) assert.deepEqual(shape(words).sort(), shape(WORDS.en).sort());
});

test("every other language says all that is on a half, and nothing of the bar", () => {
  const bar = /^(title|swap|sound_on|sound_off|text_size|theme|layout|interface|clear|state_\w+)\(/;
  const expected = shape(WORDS.en).filter((word) => !bar.test(word));
  for (const words of Object.values(HALVES)) assert.deepEqual(shape(words).sort(), expected.sort());
});

test("no word is empty, and no sentence ends twice", () => {
  for (const words of Object.values({ ...WORDS, ...HALVES })) {
    for (const [key, text] of Object.entries(words)) {
      assert(text.trim(), `${key} says nothing`);
      assert(!/[.。]\s*[.。]/.test(text), `${key} ends twice`);
    }
  }
});

test("a word is said with its values in the language of its reader", () => {
  assert.equal(say("en", "talk_in", { language: "German" }), "Talk in German");
  assert.equal(say("zh", "talk_in", { language: "德语" }), "说德语");
  assert.equal(say("pt", "talk_in", { language: "inglês" }), "Falar em inglês");
  assert.equal(say("pt", "title"), "Talk");
  assert(isWord("hold"));
  assert(!isWord("toString"));
});

test("a language's name begins with a capital; a code stays as it is", () => {
  assert.equal(nameOf("de", "en"), "German");
  assert.equal(nameOf("xx", "en"), "xx");
});

test("within a sentence a language is written as its reader writes it", () => {
  const pair = { source: "es", target: "en" };
  assert.match(sentence("es", "listen_only", pair), /La traducción de español a inglés aún/);
  assert.match(sentence("de", "listen_only", pair), /von Spanisch nach Englisch/);
  assert.equal(sentence("pt", "talk_in", { language: "pt" }), "Falar em português");
});

test("a sentence that begins with a language begins with a capital", () => {
  assert.match(sentence("fr", "text_only", { target: "en" }), /^Anglais : texte/);
  assert.match(sentence("ru", "text_only", { target: "en" }), /^Английский: /);
});

test("with a mouse one clicks, with a finger one taps", () => {
  assert.equal(forKeys("hold", true), "hold_keys");
  assert.equal(forKeys("hold", false), "hold");
  assert.equal(forKeys("listening", true), "listening");
  for (const words of Object.values({ ...WORDS, ...HALVES })) assert.notEqual(words.hold_keys, words.hold);
});
