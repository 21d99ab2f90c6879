// A word when all that was said has its outcome.
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

test("when all that was announced has its outcome, it is settled, once, and not so soon after speech", async () => {
  last().welcome();
  speak();
  announce(0);
  await pass(2_000);
  last().say(translation(0));
  await pass(900);
  assert(!news().includes("settled"));
  await pass(3_200);
  assert.deepEqual(news().filter((one) => one === "settled"), ["settled"]);
  await pass(20_000);
  assert(!news().includes("settled"));
});

test("while something is under way, nothing is settled", async () => {
  last().welcome();
  speak();
  announce(0);
  speak();
  announce(1);
  last().say(translation(0));
  await beats(10);
  assert(!news().includes("settled"));
  last().say(translation(1));
  await pass(2_100);
  assert(news().includes("settled"));
});

test("silence of which no utterance is made is settled too, when the scheduler has shown that it is there", async () => {
  last().welcome();
  speak();
  await beats(3);
  assert(!news().includes("settled"));
  await beats(4);
  assert(news().includes("settled"));
});

test("after a break it knows of what was announced meanwhile", async () => {
  last().welcome();
  speak();
  announce(0);
  last().say(translation(0));
  speak();
  await comeBack({ resumed: true, next_seq: 4, next_utterance_index: 2 });
  await beats(5);
  assert(!news().includes("settled"));
  last().say(translation(1));
  await pass(2_100);
  assert(news().includes("settled"));
});

test("a sentence that was joined to the one before is settled with it", async () => {
  last().welcome();
  speak();
  await pass(1_100);
  speak();
  announce(0);
  await beats(3);
  assert(!news().includes("settled"));
  last().say(translation(0));
  await pass(4_100);
  assert(news().includes("settled"));
});

test("a silence whose end is told late is an utterance all the same, and is not said again when it has its outcome", async () => {
  last().welcome();
  speak();
  await pass(5_000);
  announce(0);
  last().say(translation(0));
  await comeBack({ session_id: "s-2", resume_token: "r2" });
  assert.deepEqual(news().filter((one) => one.startsWith("lost")), ["lost 0"]);
  assert.deepEqual(seqs(), []);
});

test("in the middle of a sentence nothing is settled", async () => {
  last().welcome();
  session.trySend(AUDIO);
  await beats(8);
  assert(!news().includes("settled"));
});

test("a whole utterance is settled when it has its outcome", async () => {
  last().welcome();
  await session.utterance(AUDIO);
  await beats(8);
  assert(!news().includes("settled"));
  last().say(translation(0));
  await pass(2_100);
  assert(news().includes("settled"));
});

test("a sentence that is cut in two is said again if one half has no outcome when the session is lost", async () => {
  last().welcome();
  speak();
  announce(0);
  last().say(translation(0));
  announce(1);
  await comeBack({ session_id: "s-2", resume_token: "r2" });
  assert.equal(seqs().length, 2);
});
