import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./built.mjs";
import { FakeSocket, translation } from "./fake-socket.mjs";

const { connect, AccessDenied, BufferFull, SessionFailed, TokenNotFetched } = await load("index");
const SPEECH = new Int16Array(160).fill(300);
const options = { url: "localhost:5010", source: "en", target: "pt", webSocket: FakeSocket };

async function opened(more = {}, ack = {}) {
  const made = FakeSocket.next();
  const connecting = connect({ ...options, ...more });
  const socket = (await made).welcome(ack);
  return { session: await connecting, socket };
}

/** Lets everything that is due happen. */
const settle = () => new Promise((done) => setTimeout(done, 0));

test("the first message says what is wanted, and the token travels as a sub-protocol", async () => {
  const { session, socket } = await opened({ token: " abc ", bothWays: ["en", "pt"] });
  assert.equal(socket.url, "ws://localhost:5010/ws/session");
  assert.deepEqual(socket.protocols, ["lingua.v1", "lingua.auth.abc"]);
  const [init] = socket.sent;
  assert.equal(init.mode, "two_way_auto");
  assert.equal(init.src_lang, "auto");
  assert.equal(init.refreshes_token, undefined);
  session.close();
});

test("results come by iteration, each once, and in events", async () => {
  const { session, socket } = await opened();
  socket.say(translation(1, { late: true }));
  socket.say(translation(0));
  socket.say(translation(1));
  socket.say({ type: "missing_result", session_id: "s-1", utterance_index: 2, reason: "job_failed", code: "JOB_TIMEOUT", detail: "slow" });
  socket.say({ type: "session_close_ack", session_id: "s-1" });
  const heard = [];
  for await (const one of session) heard.push(one);
  assert.deepEqual(heard.map(({ index }) => index), [1, 0, 2]);
  assert.equal(heard[0].isLate, true);
  assert.deepEqual([...heard[0].speech], [0, 1, 2]);
  assert.equal(heard[2].code, "JOB_TIMEOUT");
  assert.equal(session.state, "ended");
});

test("what the scheduler did not get is sent again after a break", async () => {
  const { session, socket } = await opened();
  await session.send(SPEECH);
  await session.send(SPEECH);
  assert.equal(await session.utterance(SPEECH), 0);
  const made = FakeSocket.next();
  socket.close(1006);
  const second = (await made).welcome({ resumed: true, next_seq: 1 });
  assert.equal(second.sent[0].resume_token, "r");
  assert.deepEqual(second.of("audio_chunk").map(({ seq }) => seq), [1]);
  assert.deepEqual(second.of("utterance").map((message) => message.utterance_index), [0]);
  assert.equal(session.timesResumed, 1);
  session.close();
});

for (const [code, name] of [[4003, "UNAUTHENTICATED"], [4004, "REVOKED"], [4007, "GUESSING"]]) {
  test(`close code ${code} ends the session with its reason`, async () => {
    const { session, socket } = await opened();
    const before = FakeSocket.made.length;
    socket.close(code);
    await assert.rejects(session[Symbol.asyncIterator]().next(), (error) => error instanceof AccessDenied && error.code === name && error.status === code);
    await assert.rejects(session.send(SPEECH), AccessDenied);
    assert.equal(FakeSocket.made.length, before);
  });
}

test("a token that cannot be fetched again ends the session when it has expired", async () => {
  const { session, socket } = await opened({ token: "abc" });
  socket.close(4005);
  await assert.rejects(session[Symbol.asyncIterator]().next(), { code: "TOKEN_EXPIRED" });
});

test("a function that fetches tokens is asked before each connection", async () => {
  let count = 0;
  const { session, socket } = await opened({ token: async () => `token-${++count}` });
  assert.equal(socket.sent[0].refreshes_token, true);
  const made = FakeSocket.next();
  socket.close(4005);
  assert.deepEqual((await made).protocols, ["lingua.v1", "lingua.auth.token-2"]);
  session.close();
});

test("a function that fails is an error with its cause", async () => {
  const failure = new Error("backend away");
  const connecting = connect({ ...options, token: () => Promise.reject(failure) });
  await assert.rejects(connecting, (error) => error instanceof TokenNotFetched && error.cause === failure);
});

test("a refused session is an error with the code of the scheduler", async () => {
  const made = FakeSocket.next();
  const connecting = connect(options);
  const socket = await made;
  socket.open();
  socket.say({ type: "error", code: "PERMISSION_DENIED", message: "not this pair" });
  await assert.rejects(connecting, (error) => error instanceof SessionFailed && error.code === "PERMISSION_DENIED");
});

test("nothing is sent while the scheduler asks for a pause", async () => {
  const { session, socket } = await opened();
  socket.say({ type: "backpressure", action: "PAUSE", resume_after_ms: 40, message: "" });
  assert.equal(session.state, "paused");
  const sending = session.send(SPEECH);
  await settle();
  assert.equal(socket.of("audio_chunk").length, 0);
  await sending;
  assert.equal(socket.of("audio_chunk").length, 1);
  assert.equal(session.state, "open");
  session.close();
});

test("calls that are not awaited have a limit", async () => {
  const { session, socket } = await opened();
  socket.say({ type: "backpressure", action: "PAUSE", resume_after_ms: 5_000, message: "" });
  const calls = Array.from({ length: 1_001 }, () => session.send(SPEECH));
  const last = assert.rejects(calls.pop(), BufferFull);
  const others = Promise.allSettled(calls);
  await last;
  session.close();
  assert.deepEqual(new Set((await others).map(({ reason }) => reason.code)), new Set(["SESSION_CLOSED"]));
});

test("results that are not read make it hang up, and come again when there is room", async () => {
  const { session, socket } = await opened();
  for (let index = 0; index <= 1_000; index++) socket.say(translation(index));
  assert.equal(socket.readyState, 3);
  const results = session[Symbol.asyncIterator]();
  const made = FakeSocket.next();
  for (let index = 0; index < 600; index++) assert.equal((await results.next()).value.index, index);
  const second = await made;
  second.welcome({ resumed: true, next_seq: 0 });
  assert.equal(second.sent[0].last_utterance_index, 999);
  second.say(translation(1_000));
  for (let index = 600; index <= 1_000; index++) assert.equal((await results.next()).value.index, index);
  session.close();
});

test("a lost session begins again with what has no outcome, under higher numbers", async () => {
  const { session, socket } = await opened();
  await session.send(SPEECH, true);
  socket.say({ type: "ui_event", event: "INPUT_ENDED", status: "ok", utterance_index: 0, session_id: "s-1" });
  socket.say(translation(0));
  await session.send(SPEECH);
  await session.send(SPEECH, true);
  const restarted = new Promise((done) => session.on("restarted", done));
  const made = FakeSocket.next();
  socket.close(1006);
  const second = (await made).welcome({ session_id: "s-2", resume_token: "r2" });
  assert.deepEqual(await restarted, { lost: 0 });
  assert.deepEqual(second.of("audio_chunk").map(({ seq, is_final }) => [seq, is_final]), [[3, false], [4, true]]);
  second.say(translation(3, { session_id: "s-2" }));
  const results = session[Symbol.asyncIterator]();
  assert.deepEqual([(await results.next()).value.index, (await results.next()).value.index], [0, 3]);
  session.close();
});

test("playback is told with the time and the group", async () => {
  const { session, socket } = await opened();
  session.playback("tts_started", translation(0, { group_id: "g" }));
  session.playback("tts_play_ended", translation(0, { group_id: "g" }));
  assert.deepEqual(socket.sent.slice(1).map(({ type, group_id }) => [type, group_id]), [["tts_started", "g"], ["tts_play_ended", "g"]]);
  assert.ok(socket.sent[2].ts_end_ms >= socket.sent[1].ts_start_ms);
  session.close();
});

test("what is not a message is not listened to", async () => {
  const { session, socket } = await opened();
  socket.onmessage({ data: "{" });
  assert.equal(session.state, "open");
  session.close();
});
