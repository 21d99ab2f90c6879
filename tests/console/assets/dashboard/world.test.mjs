import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { factsOf } from "../../../../src/lingua_scheduler/console/assets/dashboard/facts.js";
import {
  Changed,
  lastPicture,
  now,
  sickNodes,
  takeChange,
  takePicture,
  world,
} from "../../../../src/lingua_scheduler/console/assets/dashboard/world.js";
import { moment, node, pair, picture, restoreTime, stopTime, wide } from "../support.mjs";

/** @import {Change, Happening} from "../../../../src/lingua_scheduler/console/assets/shared/types" */

/** @type {(ms: number) => Promise<void>} */
let pass;

beforeEach(() => {
  pass = stopTime();
  const shown = picture({ nodes: [node({ node_id: "gpu-1" })], pairs: [pair("en:zh")], wide: [wide({})] });
  takePicture({ picture: shown, history: [], events: [] }, new Changed());
});
afterEach(restoreTime);

/**
 * @param {Partial<Change>} more
 * @returns {Change}
 */
function change(more) {
  return { serial: 2, at_ms: 3_000, is_stale: false, now: moment(3_000), ...more };
}

test("a change is taken only after the picture before it", () => {
  assert(!takeChange(change({ serial: 3 }), new Changed()));
  assert(takeChange(change({}), new Changed()));
  assert.equal(lastPicture().serial, 2);
});

test("only what changed is named", () => {
  const changed = new Changed();
  takeChange(change({ leader: "i-2", nodes: { "gpu-1": null, "gpu-2": node({ node_id: "gpu-2" }) } }), changed);
  assert.deepEqual([...changed.nodes].sort(), ["gpu-1", "gpu-2"]);
  assert.deepEqual([...world.nodes.keys()], ["gpu-2"]);
  assert.equal(lastPicture().leader, "i-2");
  assert(changed.has("leader", "pairs"));
  assert(!changed.has("pairs"));
});

test("the scheduler says which nodes need a look", () => {
  takeChange(change({ needs_look: { nodes: ["gone", "gpu-1"], more: 0 } }), new Changed());
  assert.deepEqual(sickNodes().map(({ node_id }) => node_id), ["gpu-1"]);
});

test("a load moves a node's signs of life on", () => {
  takeChange(change({ loads: { "gpu-1": [3, 1, 500, 90, null, null] } }), new Changed());
  const { held, free, cpu, alive_until_ms } = world.nodes.get("gpu-1") ?? node({});
  assert.deepEqual([held, free, cpu, alive_until_ms], [3, 1, 90, 500]);
});

test("how busy wide nodes are comes by the name of their pool", () => {
  const changed = new Changed();
  takeChange(change({ wide_loads: { "*": [2, 8, 1, 2, ""] } }), changed);
  assert.equal(world.wide.get("*")?.free, 1);
  assert(changed.has("wide"));
});

test("history and events are kept for a while only", () => {
  takeChange(change({}), new Changed());
  const late = 3_000 + 31 * 60_000;
  /** @type {Happening} */
  const happening = { at_ms: 0, kind: "x.y", level: "notice", subject: "", text: "", values: {} };
  takeChange(change({ serial: 3, now: moment(late), events: Array(600).fill(happening) }), new Changed());
  assert.deepEqual(world.history.map(({ at_ms }) => at_ms), [late]);
  assert.equal(world.events.length, 500);
});

test("the clock is the scheduler's, but not that of an old picture", async () => {
  assert.equal(now(), 1_000);
  await pass(500);
  assert.equal(now(), 1_500);
  takeChange(change({ at_ms: 9_000, is_stale: true }), new Changed());
  assert.equal(now(), 1_500);
  takeChange(change({ serial: 3, at_ms: 9_000 }), new Changed());
  assert.equal(now(), 9_000);
});

test("a node is found by its languages, and a wide one by those of its pool", () => {
  const facts = factsOf(node({ node_id: "gpu-1", text: ["en:zh", "en:de"], speech: ["en:zh"] }));
  assert.deepEqual(facts.languages, ["de", "en", "zh"]);
  assert(facts.speech.has("en:zh") && !facts.speech.has("en:de"));
  const many = factsOf(node({ wide: "*" }));
  assert.deepEqual(many.languages, ["de", "en", "fr"]);
  assert(many.text.has("en:fr") && !many.speech.has("en:fr"));
  assert.equal(many.speech.size, 4);
});
