import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";
import { load } from "./built.mjs";
import { FakeSocket, translation } from "./fake-socket.mjs";

const { connect } = await load("index");
const { joinRoom, Room } = await load("rooms");
const CODE = "483920";

let session;
let socket;

beforeEach(async () => {
  const made = FakeSocket.next();
  const connecting = connect({ url: "localhost:5010", source: "en", target: "pt", webSocket: FakeSocket });
  socket = (await made).welcome();
  session = await connecting;
});
afterEach(() => session.close());

const settle = () => new Promise((done) => setTimeout(done, 0));
const said = (room_seq) => socket.say(translation(room_seq, { session_id: "other", room_seq }));

async function entered(options, listen = () => {}) {
  const room = new Room(session, CODE, options);
  listen(room);
  const entering = room.entered();
  socket.say({ type: "room_create_ack", room_code: CODE, room_id: "r", ice_servers: [{ urls: ["stun:x"] }] });
  return entering;
}

test("one who enters for voices learns of servers, and hears signals of this room alone", async () => {
  const heard = [];
  const room = await entered({ voices: true }, (made) => {
    made.on("entered", ({ code, sessionId, iceServers }) => heard.push(code, sessionId, iceServers.length));
    made.on("signal", ({ signal }) => heard.push(signal.to));
  });
  assert.equal(socket.of("room_join")[0].ice_servers, true);
  for (const room_code of [CODE, "111111"]) socket.say({ type: "webrtc_ice", room_code, to: room_code, candidate: {} });
  assert.deepEqual(heard, [CODE, "s-1", 1, CODE]);
  room.signal({ type: "webrtc_ice", room_code: CODE, to: "a", candidate: {} });
  assert.equal(socket.of("webrtc_ice")[0].to, "a");
});

test("verbs that do not wait are sent at once, and a refusal is an event", async () => {
  const room = await entered({ waits: false });
  const heard = [];
  room.on("rejected", ({ code }) => heard.push(code));
  await Promise.all([room.lock(), room.write("hello"), room.update({ speaks: "es" })]);
  assert.equal(socket.of("room_lock").length + socket.of("room_say").length + socket.of("room_update").length, 3);
  socket.say({ type: "room_error", code: "PERMISSION_DENIED", message: "no" });
  assert.deepEqual(heard, ["PERMISSION_DENIED"]);
});

test("into a broken connection nothing is sent, and that is an error at once", async () => {
  const waiting = await entered({});
  socket.close(1006);
  await assert.rejects(waiting.lock(), { code: "AWAY" });
  await assert.rejects(waiting.write("hello"), { code: "AWAY" });
});

test("a refusal is that of the request that waits, and the next one is sent after it", async () => {
  const room = await entered({});
  const [locked, written] = [room.lock(), room.write("hello")];
  await settle();
  assert.equal(socket.of("room_say").length, 0);
  socket.say({ type: "room_error", code: "PERMISSION_DENIED", message: "no" });
  await assert.rejects(locked, { code: "PERMISSION_DENIED" });
  await settle();
  socket.say({ type: "room_message", room_code: CODE, session_id: "s-1", text: "hello", sent_at_ms: 1 });
  await written;
});

test("what listeners hear is not kept for an iteration, unless one has begun", async () => {
  const room = await entered({});
  said(1);
  const heard = [];
  room.on("said", ({ seq }) => heard.push(seq));
  said(2);
  const events = room[Symbol.asyncIterator]();
  assert.equal((await events.next()).value.seq, 1);
  said(3);
  assert.equal((await events.next()).value.seq, 3);
  assert.deepEqual(heard, [2, 3]);
});

test("speech that is not base64 does not lose its text", async () => {
  const room = await entered({});
  socket.say(translation(0, { session_id: "other", room_seq: 1, tts_audio: "?" }));
  const { value } = await room[Symbol.asyncIterator]().next();
  assert.deepEqual([value.text, value.speech.length, value.index], ["heard", 0, 0]);
});

test("a room that cannot be entered is an error with its code", async () => {
  const joining = joinRoom(session, CODE);
  socket.say({ type: "room_error", code: "ROOM_LOCKED", message: "房间已锁 (the room is locked)" });
  await assert.rejects(joining, { code: "ROOM_LOCKED", message: "the room is locked" });
});

test("the end of a room is told in English, and in the words of the scheduler", async () => {
  const heard = [];
  await entered({}, (room) => room.on("ended", (event) => heard.push(event)));
  socket.say({ type: "room_expired", room_code: CODE, message: "房间已结束 (the room has ended)" });
  assert.deepEqual(heard, [{ kind: "ended", text: "the room has ended", said: "房间已结束 (the room has ended)", code: "" }]);
});
