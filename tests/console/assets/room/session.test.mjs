import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { RoomSession } from "../../../../src/lingua_scheduler/console/assets/room/session.js";
import { Pass } from "../../../../src/lingua_scheduler/console/assets/shared/pass.js";
import { FakeSocket } from "../fake-socket.mjs";
import { restoreTime, settle, stopTime } from "../support.mjs";

const CODE = "483920";
const PERSON = { name: "Ana", language: "pt", partner: "en", wantsSpeech: true, isGuest: false };

/** @type {string[]} */
let heard = [];
/** @type {RoomSession} */
let session;
/** @type {(ms: number) => Promise<void>} */
let pass;

/**
 * @param {Partial<typeof PERSON>} [more]
 * @param {Pass} [credential]
 */
function make(more = {}, credential = undefined) {
  return new RoomSession(new URL("ws://127.0.0.1/ws/session"), { ...PERSON, ...more }, {
    state: () => {},
    entering: (room) => {
      room.on("entered", ({ iceServers }) => heard.push(`servers ${iceServers.length}`));
      room.on("signal", ({ signal }) => heard.push(signal.type));
    },
    entered: (code) => heard.push(`entered ${code}`),
    members: ({ members }) => heard.push(`members ${members.length}`),
    speaking: ({ speaker, isSpeaking }) => heard.push(`speaking ${speaker} ${isSpeaking}`),
    caption: ({ speaker, text }) => heard.push(`caption ${speaker} ${text}`),
    outcome: ({ kind, speaker, index }) => heard.push(`${kind} ${speaker} ${index}`),
    message: ({ text }) => heard.push(`message ${text}`),
    history: ({ lines }) => heard.push(`history ${lines.map(({ text }) => text)}`),
    settled: () => {},
    failed: (code) => heard.push(`failed ${code}`),
    ended: (code, message) => heard.push(`ended ${code} ${message}`),
  }, credential);
}

beforeEach(() => {
  pass = stopTime();
  heard = [];
  FakeSocket.all = [];
  Object.assign(globalThis, { WebSocket: FakeSocket });
  session = make();
});
afterEach(() => {
  session.leave();
  restoreTime();
});

const news = () => heard.splice(0);
const last = (/** @type {string} */ type) => FakeSocket.last.sent.filter((message) => message.type === type).at(-1);
const members = { type: "room_members", room_code: CODE, members: [{ session_id: "s" }] };

/** @param {string} [code] */
async function connect(code = CODE) {
  session.enter(code);
  await settle();
  FakeSocket.last.acknowledge();
  await settle();
}

async function enter(code = CODE) {
  await connect(code);
  FakeSocket.last.say({ type: "room_create_ack", room_code: CODE, room_id: "r", ice_servers: [{ urls: [] }] });
  FakeSocket.last.say(members);
  await settle();
}

async function comeBack(more = {}) {
  FakeSocket.last.break();
  await settle();
  session.hurry();
  await settle();
  FakeSocket.last.acknowledge(more);
  await settle();
}

/**
 * @param {number} index
 * @param {object} [more]
 */
function result(index, more = {}) {
  const texts = { text_asr: "a", text_translated: "b", tts_audio: "" };
  return { type: "translation_result", session_id: "other", utterance_index: index, ...texts, ...more };
}

test("a new room is created with what the page can read", async () => {
  await enter("");
  const asked = last("room_create");
  assert.deepEqual([asked.display_name, asked.preferred_lang, asked.ice_servers, asked.room_events], ["Ana", "pt", true, true]);
  assert.deepEqual([asked.speech, last("session_init").src_lang], [null, "pt"]);
  assert.deepEqual(news(), ["servers 1", "entered 483920", "members 1"]);
  assert.equal(session.code, CODE);
});

test("a room is joined by its code, by a guest as a guest, without speech if none is wanted", async () => {
  session = make({ isGuest: true, wantsSpeech: false, name: "" });
  await enter();
  const asked = last("room_join");
  assert.deepEqual([asked.room_code, asked.listen_only, asked.speech, asked.display_name], [CODE, true, false, null]);
});

test("what the room says is passed on, of other rooms nothing", async () => {
  await enter();
  news();
  const room_code = CODE;
  FakeSocket.last.say({ type: "room_caption", room_code, session_id: "o", utterance_index: 0, text: "x", lang: "en" });
  FakeSocket.last.say({ type: "room_speaking", room_code, session_id: "o", speaking: true });
  FakeSocket.last.say({ type: "room_message", room_code, session_id: "o", text: "hi", sent_at_ms: 1 });
  FakeSocket.last.say({ type: "webrtc_offer", room_code, to: "o", sdp: {} });
  FakeSocket.last.say({ type: "asr_partial", session_id: "s", utterance_index: 0, text: "me" });
  FakeSocket.last.say({ type: "room_message", room_code: "111111", session_id: "o", text: "no", sent_at_ms: 1 });
  FakeSocket.last.say({ ...members, room_code: "111111" });
  FakeSocket.last.say({ type: "something_new", room_code });
  assert.deepEqual(news(), ["caption o x", "speaking o true", "message hi", "webrtc_offer", "caption s me"]);
});

test("an outcome that comes again is dropped, also one that history had", async () => {
  await enter();
  news();
  FakeSocket.last.say({
    ...{ type: "room_history", room_code: CODE },
    lines: [
      { session_id: "o", text: "a", room_seq: 4, at_ms: 1 },
      { session_id: "o", text: "b", at_ms: 1 },
    ],
  });
  FakeSocket.last.say(result(0, { room_seq: 4 }));
  FakeSocket.last.say(result(1, { room_seq: 5 }));
  FakeSocket.last.say(result(1, { room_seq: 5 }));
  FakeSocket.last.say({ ...result(0, { room_seq: 6 }), session_id: "s" });
  assert.deepEqual(news(), ["history a,b", "said other 1", "said s 0"]);
});

test("after a break it names the last outcome it has, and stays in the room", async () => {
  await enter();
  FakeSocket.last.say(result(0, { room_seq: 8 }));
  await comeBack({ resumed: true, next_seq: 0, next_utterance_index: 0 });
  FakeSocket.last.say(members);
  assert.equal(last("session_init").last_room_seq, 8);
  await pass(5_000);
  assert.equal(last("room_join"), undefined);
  assert.equal(session.timesResumed, 1);
});

test("a session that goes on without its room joins again", async () => {
  await enter();
  await comeBack({ resumed: true, next_seq: 0, next_utterance_index: 0 });
  await pass(3_100);
  assert.equal(last("room_join").room_code, CODE);
  FakeSocket.last.say({ type: "room_error", code: "ALREADY_IN_ROOM", message: "" });
  FakeSocket.last.say(members);
  assert(session.isIn);
  assert(!news().some((one) => one.startsWith("failed")));
});

test("a session that is lost enters the room again as another one", async () => {
  await enter("");
  news();
  await comeBack({ resumed: false, session_id: "s2" });
  assert.equal(last("room_join").room_code, CODE);
  FakeSocket.last.say({ type: "room_create_ack", room_code: CODE, room_id: "r" });
  assert.deepEqual([news(), session.id], [["servers 0", "entered 483920"], "s2"]);
});

test("a room that ended meanwhile is over; a passing trouble is not the end", async () => {
  await enter();
  await comeBack({ resumed: false });
  news();
  FakeSocket.last.say({ type: "room_error", code: "INTERNAL_ERROR", message: "" });
  assert.deepEqual(news(), []);
  await pass(5_100);
  assert.equal(FakeSocket.last.count("room_join"), 2);
  FakeSocket.last.say({ type: "room_error", code: "ROOM_NOT_FOUND", message: "gone" });
  assert.deepEqual(news(), ["ended ROOM_NOT_FOUND gone"]);
  assert(!session.isIn);
});

test("a refusal at the door ends the session", async () => {
  await connect();
  FakeSocket.last.say({ type: "room_error", code: "ROOM_LOCKED", message: "" });
  FakeSocket.last.say({ type: "error", code: "ROOM_LOCKED", message: "" });
  await settle();
  assert.deepEqual(news(), ["failed ROOM_LOCKED"]);
  assert.equal(FakeSocket.last.count("session_close"), 1);
  FakeSocket.last.say({ type: "session_close_ack", session_id: "s" });
  await pass(60_000);
  assert.equal(FakeSocket.all.length, 1);
});

test("something that could not be done in the room does not end it", async () => {
  await enter();
  news();
  FakeSocket.last.say({ type: "room_error", code: "PERMISSION_DENIED", message: "" });
  assert.deepEqual(news(), ["failed PERMISSION_DENIED"]);
  assert(session.isIn);
});

test("the end of the room is told once, and nothing after it", async () => {
  await enter();
  news();
  FakeSocket.last.say({ type: "room_expired", room_code: "111111", message: "another" });
  FakeSocket.last.say({ type: "room_expired", room_code: CODE, message: "closed" });
  FakeSocket.last.say(members);
  assert.deepEqual(news(), ["ended  closed"]);
});

test("a name and a language that change are told, and kept for another session", async () => {
  await enter();
  session.update({ name: "Bea", language: "es" });
  const told = last("room_update");
  assert.deepEqual([told.display_name, told.preferred_lang, told.src_lang, told.speech], ["Bea", "es", "es", null]);
  await comeBack({ resumed: false });
  assert.deepEqual([last("session_init").src_lang, last("room_join").preferred_lang], ["es", "es"]);
});

test("the verbs of the room name it, and leaving ends the session", async () => {
  await enter();
  session.say("hi");
  session.lock(true);
  session.remove("o");
  session.close();
  session.leave();
  const types = ["room_say", "room_lock", "room_remove", "room_close", "room_leave"];
  assert.deepEqual(types.map((type) => last(type)?.room_code), types.map(() => CODE));
  await settle();
  assert.equal(FakeSocket.last.count("session_close"), 1);
  FakeSocket.last.say({ type: "session_close_ack", session_id: "s" });
  assert(FakeSocket.last.isClosed);
});

test("a session that is refused is the end", async () => {
  session.enter(CODE);
  await settle();
  FakeSocket.last.open();
  FakeSocket.last.say({ type: "error", code: "INVALID_MESSAGE", message: "no" });
  await settle();
  assert.deepEqual(news(), ["ended refused no"]);
});

/** @param {number} status of whoami */
async function enterWithToken(status) {
  Object.assign(globalThis, { fetch: async () => new Response("{}", { status }) });
  const shown = new Pass(new URL("http://127.0.0.1/v1/"), "abc");
  session = make({}, shown);
  await enter();
  news();
  return shown;
}

for (const code of [4005, 4004, 4003]) {
  test(`a token that ended with ${code} is not tried again`, async () => {
    const shown = await enterWithToken(200);
    const sockets = FakeSocket.all.length;
    FakeSocket.last.break(code);
    await pass(60_000);
    assert.equal(FakeSocket.all.length, sockets);
    assert.match(news().join(), /^ended refused the .*token/);
    assert.equal(shown.denial, "bad_token");
    assert(!(await session.say("still here")));
  });
}

test("a token that is refused after a break is not tried again", async () => {
  const shown = await enterWithToken(401);
  FakeSocket.last.break();
  await pass(10_000);
  FakeSocket.last.break();
  await pass(60_000);
  const sockets = FakeSocket.all.length;
  await pass(60_000);
  assert.equal(FakeSocket.all.length, sockets);
  assert.equal(news().length, 1);
  assert.equal(shown.denial, "bad_token");
});

test("a message is sent while one is in the room, and not into a broken connection", async () => {
  await enter();
  assert(await session.say("hello"));
  assert.equal(last("room_say").text, "hello");
  FakeSocket.last.break();
  assert(!(await session.say("lost")));
});
