import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { axes, inWords } from "../../../../src/lingua_scheduler/console/assets/dashboard/matrix.js";
import {
  byThinness,
  fitting,
  isFitting,
  wanted,
} from "../../../../src/lingua_scheduler/console/assets/dashboard/pair-choice.js";
import { isFound, lookUp, search, searched } from "../../../../src/lingua_scheduler/console/assets/dashboard/wide.js";
import { use } from "../../../../src/lingua_scheduler/console/assets/dashboard/words.js";
import { Changed, takePicture } from "../../../../src/lingua_scheduler/console/assets/dashboard/world.js";
import { dictionary, pair, picture, wide } from "../support.mjs";

/** @import {DetourLook, PairLook, Picture} from "../../../../src/lingua_scheduler/console/assets/shared/types" */

beforeEach(() => {
  use("en", dictionary("en"));
  see({});
});

/** @param {Partial<Picture>} more */
function see(more) {
  takePicture({ picture: picture(more), history: [], events: [] }, new Changed());
}

/** @param {PairLook[]} pairs */
function names(pairs) {
  return pairs.map(({ src, tgt }) => `${src}:${tgt}`);
}

test("a matrix has each language once, by its name", () => {
  const pairs = ["en:zh", "de:zh", "en:de"].map((name) => pair(name));
  assert.deepEqual(axes(pairs), { sources: ["en", "de"], targets: ["zh", "de"] });
});

test("a cell says in words how much room there is, and on whom it hangs", () => {
  const words = inWords(pair("en:zh", { free: 1, hangs_on: "gpu-1" }));
  assert.match(words, /^English → Chinese, .*1.*10.*gpu-1/);
});

test("the thinnest pairs come first, and among equals those that hang on one node", () => {
  const pairs = [
    pair("en:zh"),
    pair("en:fr", { hangs_on: "gpu-1" }),
    pair("en:de", { room: "full" }),
    pair("en:ab", { hangs_on: "gpu-1" }),
  ];
  assert.deepEqual(names(pairs.sort(byThinness)), ["en:de", "en:ab", "en:fr", "en:zh"]);
});

test("a matrix holds as many pairs as make 400 cells, the thinnest of them", () => {
  const codes = Array.from({ length: 30 }, (_, number) => `l${number}`);
  const pairs = codes.flatMap((src) => codes.map((tgt) => pair(`${src}:${tgt}`, { room: src === "l7" ? "full" : "wide" })));
  assert(!isFitting(pairs));
  const shown = fitting(pairs);
  assert(isFitting(shown));
  assert(shown.some(({ src }) => src === "l7"));
  assert(isFitting(pairs.slice(0, 30)));
});

test("pairs that people ask for and nobody serves are shown too, in both directions", () => {
  see({ pairs: [pair("en:zh"), pair("en:en")], session_languages: { "auto:de+fr": 1, "it:en": 2 } });
  assert.deepEqual(names(wanted("")).sort(), ["de:fr", "en:zh", "fr:de", "it:en"]);
  assert.equal(wanted("it:en")[0].room, "none");
});

test("a pair is found by a part of a name, and with an arrow by what is said and what is heard", () => {
  assert.deepEqual(searched(" Eng → chi "), { words: ["eng", "chi"], from: "eng", to: "chi" });
  assert(isFound(pair("en:zh"), searched("chin")));
  assert(isFound(pair("en:zh"), searched("en->zh")));
  assert(!isFound(pair("en:zh"), searched("zh->en")));
  assert(isFound(pair("en:zh", { hangs_on: "gpu-1" }), searched("gpu-1")));
});

test("wide nodes are searched without listing what they serve", () => {
  see({ wide: [wide({})] });
  assert.deepEqual([...search(searched("de"), 100).keys()], ["en:de", "de:en", "de:fr"]);
  assert.deepEqual([...search(searched("en->fr"), 100).keys()], ["en:fr"]);
  assert.equal(search(searched("e"), 2).size, 2);
  assert.equal(search(searched(""), 100).size, 0);
});

test("a pair of wide nodes is what they have together", () => {
  see({ wide: [wide({ name: "one", hangs_on: "gpu-1" }), wide({ name: "two", hangs_on: "gpu-2", slots: 6, room: "low" })] });
  assert.deepEqual(lookUp("en:de"), pair("en:de", { nodes: 2, slots: 10, free: 6, text_nodes: 2 }));
  assert.equal(lookUp("en:fr")?.nodes, 0, "fr is written, not spoken");
  assert.equal(lookUp("fr:en"), undefined);
});

test("a pair that no node serves alone is shown with the way it takes", () => {
  /** @type {DetourLook[]} */
  const detours = [
    { src: "zh", tgt: "ja", rung: "pivot", pivot: "en" },
    { src: "de", tgt: "ja", rung: "text_only", pivot: "en" },
    { src: "pt", tgt: "ja", rung: "split", pivot: "" },
    { src: "en", tgt: "zh", rung: "split", pivot: "" },
  ];
  see({ pairs: [pair("en:zh"), pair("de:ja", { nodes: 0, slots: 0, free: 0, room: "none" })], detours });
  const found = new Map(wanted("").map((one) => [`${one.src}:${one.tgt}`, one]));
  assert.equal(inWords(found.get("zh:ja") ?? pair("")), "Chinese → Japanese, by way of English");
  assert.equal(inWords(found.get("de:ja") ?? pair("")), "German → Japanese, as text only, by way of English");
  assert.match(inWords(found.get("pt:ja") ?? pair("")), /in several jobs$/);
  // One node serves it by now.
  assert.notEqual(found.get("en:zh")?.room, "detour");
  assert.deepEqual(names(wanted("zh ja")), ["zh:ja"]);
  // What is lost comes first.
  assert(byThinness(pair("a:b", { room: "none" }), found.get("zh:ja") ?? pair("")) < 0);
});
