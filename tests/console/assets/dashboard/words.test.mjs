import assert from "node:assert/strict";
import { test } from "node:test";

import { LANGUAGES } from "../../../../src/lingua_scheduler/console/assets/shared/i18n.js";
import { language, t, tryT, use } from "../../../../src/lingua_scheduler/console/assets/dashboard/words.js";
import { dictionary, values } from "../support.mjs";

test("every language says everything, with the same values", () => {
  const english = dictionary("en");
  for (const code of Object.keys(LANGUAGES)) {
    const words = dictionary(code);
    assert.deepEqual(Object.keys(words).sort(), Object.keys(english).sort());
    for (const [key, text] of Object.entries(words)) {
      assert(text.trim(), `${key} says nothing in ${code}`);
      // English tells one from many by n; a language that does not need it may leave it out.
      const named = (/** @type {string} */ one) => values(one).filter((name) => name !== "n");
      for (const name of named(text)) assert(named(english[key]).includes(name), `${key} in ${code}: {${name}}`);
    }
  }
});

test("a text is said in the language that was chosen", () => {
  use("en", { "nodes.count": "one node|{count} nodes" });
  assert.equal(language(), "en");
  assert.equal(t("nodes.count", { n: 1, count: "1" }), "one node");
  assert.equal(t("nodes.count", { n: 2, count: "2" }), "2 nodes");
  assert.equal(t("unheard.of"), "unheard.of");
});

test("a text that lacks a value is not said", () => {
  use("en", { alarm: "{node} is away" });
  assert.equal(tryT("alarm", { node: "n-1" }), "n-1 is away");
  assert.equal(tryT("alarm", {}), null);
  assert.equal(tryT("unheard.of", {}), null);
});
