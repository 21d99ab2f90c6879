import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { Link } from "../../../../src/lingua_scheduler/console/assets/talk/link.js";
import { restoreTime, settle, stopTime } from "../support.mjs";
import { FakeSocket } from "./fake-socket.mjs";

const URL_ = new URL("ws://127.0.0.1/ws/session");
const AUDIO = new Int16Array(1_600);

/** @type {string[]} */
let heard = [];
/** @type {Link} */
let link;
/** @type {(ms: number) => Promise<void>} */
let pass;

beforeEach(() => {
  pass = stopTime();
  heard = [];
  FakeSocket.all = [];
  Object.assign(globalThis, { WebSocket: FakeSocket });
  link = new Link(URL_, "en", "zh", {
    state: (state) => heard.push(state),
    outcome: ({ utterance_index }) => heard.push(`outcome ${utterance_index}`),
    partial: ({ text }) => heard.push(`partial ${text}`),
    trouble: ({ error_code }) => heard.push(`trouble ${error_code}`),
    lost: (count) => heard.push(`lost ${count}`),
    settled: () => heard.push("settled"),
    refused: (text) => heard.push(`refused ${text}`),
  });
});

afterEach(restoreTime);

/** What was heard since the last look. */
function news() {
  return heard.splice(0);
}

/** @param {number} index */
function result(index) {
  return { type: "translation_result", utterance_index: index, text_asr: "a", text_translated: "b", tts_audio: "" };
}

/** Sends one utterance of two chunks. */
function speak() {
  link.send(AUDIO, false);
  link.send(AUDIO, true);
}

test("it says what it wants, and is open once that is acknowledged", () => {
  assert.deepEqual(news(), ["connecting"]);
  FakeSocket.last.open();
  const [init] = FakeSocket.last.sent;
  assert.deepEqual([init.type, init.src_lang, init.tgt_lang], ["session_init", "en", "zh"]);
  assert(!("resume_token" in init));
  assert(!link.isOpen);
  FakeSocket.last.acknowledge();
  assert(link.isOpen);
  assert.deepEqual(news(), ["open"]);
});

test("speech waits for the acknowledgement, then goes out in order", () => {
  speak();
  FakeSocket.last.acknowledge();
  assert.deepEqual(FakeSocket.last.seqs, [0, 1]);
});

test("binary frames are used where the scheduler agrees", () => {
  FakeSocket.last.acknowledge({ use_binary_frame: true });
  speak();
  const frames = FakeSocket.last.sent.filter((frame) => frame instanceof Uint8Array);
  assert.deepEqual(frames.map((frame) => [frame[0], frame[2], frame[10]]), [
    [1, 0, 0],
    [1, 1, 1],
  ]);
});

test("the next utterance waits until the one before has ended", async () => {
  FakeSocket.last.acknowledge();
  speak();
  speak();
  assert.deepEqual(FakeSocket.last.seqs, [0, 1]);
  FakeSocket.last.say({ type: "ui_event", utterance_index: 0, event: "INPUT_ENDED", status: "ok" });
  assert.deepEqual(FakeSocket.last.seqs, [0, 1, 2, 3]);
});

test("where nobody tells that it has ended, the next one waits a second", async () => {
  FakeSocket.last.acknowledge();
  speak();
  speak();
  await pass(950);
  assert.deepEqual(FakeSocket.last.seqs, [0, 1]);
  await pass(100);
  assert.deepEqual(FakeSocket.last.seqs, [0, 1, 2, 3]);
});

test("a pause holds speech back, and its end is told", async () => {
  FakeSocket.last.acknowledge();
  news();
  FakeSocket.last.say({ type: "backpressure", resume_after_ms: 500 });
  speak();
  assert.deepEqual(news(), ["paused"]);
  assert.deepEqual(FakeSocket.last.seqs, []);
  await pass(600);
  assert.deepEqual(news(), ["open"]);
  assert.deepEqual(FakeSocket.last.seqs, [0, 1]);
});

test("a full socket is not filled further", async () => {
  FakeSocket.last.acknowledge();
  FakeSocket.last.bufferedAmount = 2 << 20;
  speak();
  assert.deepEqual(FakeSocket.last.seqs, []);
  FakeSocket.last.bufferedAmount = 0;
  await pass(150);
  assert.deepEqual(FakeSocket.last.seqs, [0, 1]);
});

test("after a break it comes back with its token and sends what is missing", async () => {
  FakeSocket.last.acknowledge();
  speak();
  FakeSocket.last.say(result(0));
  news();
  FakeSocket.last.break();
  await settle();
  assert.deepEqual(news(), ["away"]);
  link.hurry();
  await settle();
  assert.equal(FakeSocket.all.length, 2);
  FakeSocket.last.open();
  const [init] = FakeSocket.last.sent;
  assert.deepEqual([init.resume_token, init.last_utterance_index], ["t", 0]);
  FakeSocket.last.acknowledge({ resumed: true, next_seq: 1, next_utterance_index: 1 });
  await pass(1_050);
  assert.deepEqual(FakeSocket.last.seqs, [1]);
  assert.equal(link.timesResumed, 1);
});

test("it tries again by itself, sooner or later", async () => {
  FakeSocket.last.break();
  await settle();
  await pass(250);
  assert.equal(FakeSocket.all.length, 2);
});

test("a session that is gone hears again what has no outcome", async () => {
  FakeSocket.last.acknowledge();
  speak();
  FakeSocket.last.break();
  await settle();
  link.hurry();
  await settle();
  news();
  FakeSocket.last.acknowledge({ resumed: false });
  assert.deepEqual(news(), ["lost 0", "open"]);
  await pass(1_050);
  assert.deepEqual(FakeSocket.last.seqs, [0, 1]);
});

test("an outcome that comes twice is told once", () => {
  FakeSocket.last.acknowledge();
  news();
  FakeSocket.last.say(result(0));
  FakeSocket.last.say(result(0));
  FakeSocket.last.say({ type: "missing_result", utterance_index: 1, reason: "job_failed" });
  assert.deepEqual(news(), ["outcome 0", "outcome 1"]);
});

test("partial texts and troubles are passed on", () => {
  FakeSocket.last.acknowledge();
  news();
  FakeSocket.last.say({ type: "asr_partial", utterance_index: 0, text: "hel" });
  FakeSocket.last.say({ type: "ui_event", utterance_index: 0, event: "X", status: "error", error_code: "NO_NODE" });
  assert.deepEqual(news(), ["partial hel", "trouble NO_NODE"]);
});

test("a refusal that no second try will mend ends it", async () => {
  FakeSocket.last.open();
  FakeSocket.last.say({ type: "error", code: "INVALID_MESSAGE", message: "no" });
  await pass(10_000);
  assert.deepEqual(news(), ["connecting", "refused no"]);
  assert.equal(FakeSocket.all.length, 1);
});

test("any other refusal is tried again", async () => {
  FakeSocket.last.open();
  FakeSocket.last.say({ type: "error", code: "OVERLOADED", message: "later" });
  await pass(5_000);
  assert(FakeSocket.all.length > 1);
});

test("a scheduler that does not acknowledge is left after ten seconds", async () => {
  const [first] = FakeSocket.all;
  first.open();
  await pass(9_900);
  assert(!first.isClosed);
  await pass(200);
  assert(first.isClosed);
});

test("a connection that has died without a word is found out while somebody waits", async () => {
  FakeSocket.last.acknowledge();
  speak();
  const [first] = FakeSocket.all;
  await pass(2_100);
  assert.equal(first.count("client_heartbeat"), 1);
  await pass(8_000);
  assert(first.isClosed);
});

test("one that answers stays", async () => {
  FakeSocket.last.acknowledge();
  speak();
  for (let beat = 0; beat < 6; beat += 1) {
    await pass(2_000);
    FakeSocket.last.say({ type: "server_heartbeat" });
  }
  assert.equal(FakeSocket.all.length, 1);
  assert(!FakeSocket.last.isClosed);
});

test("when all that was announced has its outcome, it is settled", async () => {
  FakeSocket.last.acknowledge();
  speak();
  FakeSocket.last.say({ type: "ui_event", utterance_index: 0, event: "INPUT_ENDED", status: "ok" });
  await pass(2_000);
  assert(!news().includes("settled"));
  FakeSocket.last.say(result(0));
  await pass(4_000);
  assert(news().includes("settled"));
});

test("it is not settled so soon after speech: more may be announced", async () => {
  FakeSocket.last.acknowledge();
  speak();
  FakeSocket.last.say({ type: "ui_event", utterance_index: 0, event: "INPUT_ENDED", status: "ok" });
  FakeSocket.last.say(result(0));
  await pass(2_100);
  assert(!news().includes("settled"));
  await pass(2_000);
  assert(news().includes("settled"));
});

test("an overloaded node makes it come back after a pause", async () => {
  FakeSocket.last.acknowledge();
  news();
  FakeSocket.last.say({ type: "error", code: "NODE_OVERLOADED", message: "" });
  await settle();
  assert.deepEqual(news(), ["paused", "away"]);
});

test("closing waits for the answer to what was said", async () => {
  FakeSocket.last.acknowledge();
  speak();
  link.close();
  assert.equal(FakeSocket.last.count("session_close"), 1);
  assert(!FakeSocket.last.isClosed);
  FakeSocket.last.say({ type: "session_close_ack" });
  assert(FakeSocket.last.isClosed);
  await pass(10_000);
  assert.equal(FakeSocket.all.length, 1);
});

test("closing after the answer is over at once", () => {
  FakeSocket.last.acknowledge();
  speak();
  FakeSocket.last.say(result(0));
  link.close();
  assert(FakeSocket.last.isClosed);
});

test("closing with nothing said is over at once", async () => {
  FakeSocket.last.acknowledge();
  link.close();
  assert(FakeSocket.last.isClosed);
  await pass(60_000);
  assert.equal(FakeSocket.all.length, 1);
});

test("playback is told with the trace of its result", () => {
  FakeSocket.last.acknowledge();
  link.playback("tts_started", { trace_id: "x", group_id: "g" });
  const told = FakeSocket.last.sent[FakeSocket.last.sent.length - 1];
  assert.deepEqual([told.type, told.trace_id, told.group_id], ["tts_started", "x", "g"]);
  assert.equal(told.ts_start_ms, Date.now());
});

test("what is not a message is not listened to", () => {
  FakeSocket.last.acknowledge();
  news();
  FakeSocket.last.onmessage?.({ data: "{" });
  assert.deepEqual(news(), []);
});
