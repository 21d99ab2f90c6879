import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Directions } from "../../../../src/lingua_scheduler/console/assets/talk/directions.js";
import { FakeSocket } from "../fake-socket.mjs";
import { restoreTime, settle, stopTime } from "../support.mjs";

const ONE = /** @type {const} */ ({ source: "en", target: "zh", side: "a" });
const OTHER = /** @type {const} */ ({ source: "zh", target: "en", side: "b" });

/** @type {string[]} */
let heard = [];
/** @type {Directions} */
let directions;
/** @type {(ms: number) => Promise<void>} */
let wait;

beforeEach(() => {
  wait = stopTime();
  heard = [];
  FakeSocket.all = [];
  Object.assign(globalThis, { WebSocket: FakeSocket, fetch: async () => Response.error() });
  directions = new Directions(new URL("ws://127.0.0.1/ws/session"), {
    state: () => {},
    outcome: ({ source }, { index }) => heard.push(`outcome ${source} ${index}`),
    partial: ({ source }, { text }) => heard.push(`partial ${source} ${text}`),
    trouble: ({ source }, { code }) => heard.push(`trouble ${source} ${code}`),
    lost: ({ source }, count) => heard.push(`lost ${source} ${count}`),
    settled: ({ source }) => heard.push(`settled ${source}`),
    refused: ({ source }, text) => heard.push(`refused ${source} ${text}`),
  }, { credential: "abc", refused: ({ code }) => heard.push(`denied ${code}`) });
});
afterEach(() => {
  directions.want([]);
  restoreTime();
});

const news = () => heard.splice(0);
const result = (/** @type {number} */ utterance_index) => ({
  ...{ type: "translation_result", session_id: "s", utterance_index, trace_id: "" },
  ...{ text_asr: "a", text_translated: "b", tts_audio: "", tts_format: "" },
});

test("each direction is a session of its own, and the state is that of the one that is worst off", async () => {
  directions.want([ONE, OTHER]);
  await settle();
  const [one, other] = FakeSocket.all;
  one.acknowledge();
  assert.equal(directions.state, "connecting");
  other.acknowledge();
  assert.equal(directions.state, "open");
  assert.deepEqual([one, other].map(({ sent: [init] }) => [init.src_lang, init.enable_streaming_asr]), [["en", true], ["zh", true]]);
  one.say({ type: "backpressure", action: "PAUSE", resume_after_ms: 500, message: "" });
  assert.equal(directions.state, "paused");
});

test("what is heard is told with its direction", async () => {
  directions.want([ONE]);
  await settle();
  FakeSocket.last.acknowledge();
  FakeSocket.last.say({ type: "asr_partial", session_id: "s", utterance_index: 0, text: "hel", is_final: false });
  const step = { type: "ui_event", session_id: "s", utterance_index: 0 };
  FakeSocket.last.say({ ...step, event: "INPUT_ENDED", status: "ok" });
  FakeSocket.last.say({ ...step, event: "X", status: "error", error_code: "NO_NODE" });
  FakeSocket.last.say(result(0));
  assert.deepEqual(news(), ["partial en hel", "trouble en NO_NODE", "outcome en 0"]);
});

test("one that is not wanted any more still hears the answer to what was said, and then ends", async () => {
  directions.want([ONE]);
  await settle();
  const socket = FakeSocket.last;
  socket.acknowledge();
  directions.find("en", "zh")?.session.trySend(new Int16Array(1_600), true);
  directions.want([OTHER]);
  await settle();
  assert.equal(socket.count("session_close"), 1);
  socket.say(result(0));
  socket.say({ type: "session_close_ack", session_id: "s" });
  assert(socket.isClosed);
  assert.deepEqual([news(), directions.all.map(({ source }) => source)], [["outcome en 0"], ["zh"]]);
});

test("one that never answers is left after half a minute", async () => {
  directions.want([ONE]);
  await settle();
  FakeSocket.last.acknowledge();
  directions.want([]);
  await wait(31_000);
  const { length } = FakeSocket.all;
  await wait(60_000);
  assert.equal(FakeSocket.all.length, length);
});

test("a login that has ended is told, and after another one the direction is tried again", async () => {
  directions.want([ONE]);
  await settle();
  FakeSocket.last.acknowledge();
  FakeSocket.last.break(4004);
  await wait(10_000);
  assert.deepEqual([news(), directions.state], [["denied REVOKED", "refused en the key or token was revoked"], "refused"]);
  assert.equal(FakeSocket.all.length, 1);
  directions.want([ONE]);
  await settle();
  FakeSocket.last.acknowledge();
  assert.deepEqual([FakeSocket.all.length, directions.state], [2, "open"]);
});
