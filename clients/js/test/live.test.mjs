// Live speech of a page, and no end of patience.
import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { load } from "./built.mjs";
import { restoreTime, settle, stopTime } from "./clock.mjs";
import { FakeSocket, translation } from "./fake-socket.mjs";

const { Session } = await load("index");
const AUDIO = new Int16Array(1_600);
const options = { url: "localhost:5010", source: "en", target: "zh", webSocket: FakeSocket, openWithinMs: Infinity, giveUpAfterMs: Infinity };

let heard = [];
let session;
let pass;

beforeEach(async () => {
  pass = stopTime();
  heard = [];
  FakeSocket.made = [];
  globalThis.fetch = async () => Response.error();
  session = await begun();
});
afterEach(() => {
  session.close();
  restoreTime();
});

async function begun(more = {}) {
  const made = new Session({ ...options, ...more });
  made.on("state", (state) => heard.push(state));
  made.on("result", ({ index }) => heard.push(`outcome ${index}`));
  made.on("restarted", ({ lost }) => heard.push(`lost ${lost}`));
  made.on("settled", () => heard.push("settled"));
  made.on("ended", (error) => heard.push(`ended ${error?.said}`));
  await settle();
  return made;
}

const last = () => FakeSocket.made.at(-1);
const seqs = () => last().of("audio_chunk").map(({ seq }) => seq);
const news = () => heard.splice(0);
const announce = (utterance_index, event = "INPUT_ENDED") =>
  last().say({ type: "ui_event", session_id: "s-1", utterance_index, event, status: "ok" });

/** Sends one utterance of two chunks. */
function speak() {
  session.trySend(AUDIO);
  session.trySend(AUDIO, true);
}

/** So often two seconds pass, and the scheduler shows that it is there. */
async function beats(count) {
  for (let beat = 0; beat < count; beat += 1) {
    await pass(2_000);
    last().say({ type: "server_heartbeat" });
  }
}

async function comeBack(more = {}) {
  last().close(1006);
  await settle();
  session.hurry();
  await settle();
  last().welcome(more);
}

test("speech waits for the acknowledgement, then goes out in order", () => {
  speak();
  last().welcome();
  assert.deepEqual(seqs(), [0, 1]);
});

test("binary frames are used where the scheduler agrees", () => {
  last().welcome({ use_binary_frame: true });
  speak();
  const frames = last().sent.filter((frame) => frame instanceof Uint8Array);
  assert.deepEqual(frames.map((frame) => [frame[0], frame[2], frame[10]]), [[1, 0, 0], [1, 1, 1]]);
});

test("the next utterance waits until the one before has ended, or a second where that is not announced", async () => {
  last().welcome();
  speak();
  speak();
  assert.deepEqual(seqs(), [0, 1]);
  announce(0);
  assert.deepEqual(seqs(), [0, 1, 2, 3]);
  speak();
  await pass(950);
  assert.deepEqual(seqs(), [0, 1, 2, 3]);
  await pass(100);
  assert.deepEqual(seqs(), [0, 1, 2, 3, 4, 5]);
});

test("live speech is refused when half a minute waits, but never its end", () => {
  for (let count = 0; count < 300; count += 1) assert(session.trySend(AUDIO));
  assert(!session.trySend(AUDIO));
  assert(session.trySend(AUDIO, true));
  last().welcome();
  assert.equal(seqs().length, 301);
  session.close();
  assert(!session.trySend(AUDIO));
});

test("a pause holds speech back, and its end is told", async () => {
  last().welcome();
  news();
  last().say({ type: "backpressure", action: "PAUSE", resume_after_ms: 500, message: "" });
  speak();
  assert.deepEqual([news(), seqs()], [["paused"], []]);
  await pass(600);
  assert.deepEqual([news(), seqs()], [["open"], [0, 1]]);
});

test("a full socket is not filled further", async () => {
  last().welcome();
  last().bufferedAmount = 2 << 20;
  speak();
  assert.deepEqual(seqs(), []);
  last().bufferedAmount = 0;
  await pass(150);
  assert.deepEqual(seqs(), [0, 1]);
});

test("a scheduler that does not answer is tried again for as long as one wants", async () => {
  for (let count = 0; count < 20; count += 1) {
    last().close(1006);
    await settle();
    await pass(5_000);
  }
  assert(FakeSocket.made.length >= 20);
  last().welcome();
  await settle();
  assert.deepEqual(news(), ["open"]);
});

test("one that has no room is tried again, one that refuses for good is not", async () => {
  last().open();
  last().say({ type: "error", code: "NODE_OVERLOADED", message: "later" });
  await pass(5_000);
  const { length } = FakeSocket.made;
  assert(length > 1);
  last().open();
  last().say({ type: "error", code: "INVALID_MESSAGE", message: "no" });
  await pass(10_000);
  assert.equal(FakeSocket.made.length, length);
  assert.deepEqual(news(), ["ended", "ended no"]);
});

test("a refusal that no second try will mend ends a session that was open", async () => {
  last().welcome();
  last().close(1006);
  await settle();
  session.hurry();
  await settle();
  last().open();
  last().say({ type: "error", code: "PERMISSION_DENIED", message: "not any more" });
  await pass(10_000);
  assert.equal(FakeSocket.made.length, 2);
  assert.equal(news().at(-1), "ended not any more");
});

test("a function that fetches tokens may fail for as long as one waits", async () => {
  session.close();
  const { length } = FakeSocket.made;
  let isLoggedIn = false;
  session = await begun({ token: async () => (isLoggedIn ? "abc" : Promise.reject(new Error("401"))) });
  await pass(20_000);
  assert.equal(FakeSocket.made.length, length);
  isLoggedIn = true;
  await pass(5_000);
  assert.deepEqual(last().protocols, ["lingua.v1", "lingua.auth.abc"]);
});

test("a scheduler that does not acknowledge is left after ten seconds", async () => {
  const [first] = FakeSocket.made;
  first.open();
  await pass(9_900);
  assert.equal(first.readyState, 1);
  await pass(200);
  assert.equal(first.readyState, 3);
});

test("a connection that has died without a word is found out while an answer is expected", async () => {
  last().welcome();
  speak();
  const [first] = FakeSocket.made;
  await pass(2_100);
  assert.equal(first.of("client_heartbeat").length, 1);
  await pass(8_000);
  assert.equal(first.readyState, 3);
});

test("one that answers stays", async () => {
  last().welcome();
  speak();
  await beats(6);
  assert.equal(FakeSocket.made.length, 1);
});

test("what is wished is asked for by the session that begins when this one is lost", async () => {
  last().welcome();
  session.wish({ src_lang: "es" });
  await comeBack({ session_id: "s-2" });
  assert.equal(last().sent[0].src_lang, "es");
});

test("an overloaded node makes it come back after a pause", async () => {
  last().welcome();
  news();
  last().say({ type: "error", code: "NODE_OVERLOADED", message: "" });
  await settle();
  assert.deepEqual(news(), ["paused", "away"]);
});

test("finishing waits for the answer to what was said", async () => {
  last().welcome();
  speak();
  await session.finish();
  assert.equal(last().of("session_close").length, 1);
  last().say(translation(0));
  last().say({ type: "session_close_ack", session_id: "s-1" });
  await pass(10_000);
  assert.deepEqual(news().slice(-3), ["outcome 0", "ended", "ended undefined"]);
  assert.equal(FakeSocket.made.length, 1);
});
