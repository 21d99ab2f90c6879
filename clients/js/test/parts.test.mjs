import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./built.mjs";

const { Received } = await load("received");
const { Spans } = await load("spans");
const { pauseMs } = await load("renewal");
const { sessionUrl } = await load("access");
const { Gate } = await load("gate");
const { readWav, sentences, sendFile } = await load("files");
const { binaryChunk, fromBase64, toBase64 } = await load("frames");
const { opusPackets, ogg } = await load("speech");
const { Player } = await load("playback");

test("what has arrived is known, in any order, and what is missing for long is given up", () => {
  const received = new Received();
  assert.deepEqual([received.add(1), received.add(1), received.last], [true, false, -1]);
  assert.deepEqual([received.add(0), received.last, received.has(1)], [true, 1, true]);
  for (let number = 3; number <= 3 + 512; number++) received.add(number);
  assert.equal(received.last, 3 + 512);
});

test("speech has its answer when all that was made of it has", () => {
  const spans = new Spans();
  spans.add(0, false);
  spans.sent(0);
  spans.ended(0, false); // cut for its length
  spans.answered(0);
  assert.equal(spans.areAnswered, false);
  spans.add(1, true);
  spans.sent(1);
  spans.ended(1, true);
  assert.equal(spans.areAnswered, false);
  spans.answered(1);
  assert.equal(spans.areAnswered, true);
});

test("silence has no answer", () => {
  const spans = new Spans();
  spans.add(0, true);
  spans.sent(0);
  spans.silent();
  assert.equal(spans.areAnswered, true);
});

test("without announcements each outcome answers the oldest sentence", () => {
  const spans = new Spans();
  spans.add(0, true);
  spans.add(1, true);
  spans.answered(0);
  assert.deepEqual(spans.unanswered.map(({ start }) => start), [1]);
});

test("a token is renewed a minute before its end, or in the last quarter of a short life", () => {
  assert.equal(pauseMs(3_600_000), 3_540_000);
  assert.equal(pauseMs(40_000), 30_000);
  assert.equal(pauseMs(1_000), 5_000);
  assert.equal(pauseMs(-1), 30_000);
});

test("addresses are read in every usual form", () => {
  assert.equal(sessionUrl("localhost:5010").href, "ws://localhost:5010/ws/session");
  assert.equal(sessionUrl("https://example.org/lingua/").href, "wss://example.org/lingua/ws/session");
  assert.equal(sessionUrl("ws://h/ws/session").href, "ws://h/ws/session");
  assert.throws(() => sessionUrl("ftp://h"), { code: "BAD_ADDRESS" });
});

test("a binary frame has the layout of the protocol", () => {
  const frame = binaryChunk("s-1", { seq: 258, audio: Uint8Array.of(7, 8), isFinal: true, at: 0 });
  assert.deepEqual([...frame.subarray(0, 6)], [1, 3, 2, 1, 0, 0]);
  assert.deepEqual([...frame.subarray(10)], [1, 0, 115, 45, 49, 7, 8]);
});

test("base64 goes both ways, also for long ones", () => {
  const bytes = Uint8Array.from({ length: 100_000 }, (_, i) => i % 256);
  assert.deepEqual(fromBase64(toBase64(bytes)), bytes);
  assert.deepEqual(fromBase64("not base64"), new Uint8Array());
});

const frame = (level, isLast = false) => ({ samples: new Int16Array(1_600), level, isLast });

test("the gate lets speech through with what came before it, and ends the sentence after a pause", () => {
  const gate = new Gate();
  assert.deepEqual([gate.pass(frame(0.001)), gate.pass(frame(0.001))], [[], []]);
  assert.equal(gate.pass(frame(0.2)).length, 3);
  const passed = Array.from({ length: 8 }, () => gate.pass(frame(0.001))).flat();
  assert.deepEqual(passed.map(({ isFinal }) => isFinal), [...Array(7).fill(false), true]);
  assert.deepEqual(gate.pass(frame(0.001)), []);
});

test("the gate ends a sentence when the microphone is stopped", () => {
  const gate = new Gate();
  gate.pass(frame(0.2));
  assert.equal(gate.pass(frame(0.2, true))[0].isFinal, true);
  assert.equal(gate.isSpeech, false);
});

/** A tone between pauses, as a WAV file. */
function wav(rate, seconds, channels = 1) {
  const samples = seconds.flatMap((length) =>
    Array.from({ length: Math.round(Math.abs(length) * rate) }, (_, i) => (length < 0 ? 0 : Math.round(10_000 * Math.sin((2 * Math.PI * 440 * i) / rate)))),
  );
  const file = new DataView(new ArrayBuffer(44 + samples.length * 2 * channels));
  const word = (at, text) => [...text].forEach((char, i) => file.setUint8(at + i, char.charCodeAt(0)));
  word(0, "RIFF");
  word(8, "WAVEfmt ");
  file.setUint32(16, 16, true);
  file.setUint16(20, 1, true);
  file.setUint16(22, channels, true);
  file.setUint32(24, rate, true);
  file.setUint16(34, 16, true);
  word(36, "data");
  file.setUint32(40, samples.length * 2 * channels, true);
  samples.forEach((sample, i) => {
    for (let channel = 0; channel < channels; channel++) file.setInt16(44 + 2 * (i * channels + channel), sample, true);
  });
  return new Uint8Array(file.buffer);
}

test("a file is read at any rate, as mono", () => {
  for (const [rate, channels] of [[16_000, 1], [48_000, 2], [44_100, 1], [8_000, 1]]) {
    const samples = readWav(wav(rate, [0.5], channels));
    assert.ok(Math.abs(samples.length - 8_000) <= 2, `${rate}: ${samples.length}`);
    const middle = samples.subarray(2_000, 6_000);
    const power = Math.sqrt(middle.reduce((sum, sample) => sum + sample * sample, 0) / middle.length);
    assert.ok(Math.abs(power - 10_000 / Math.SQRT2) < 100, `${rate}: ${power}`);
  }
  assert.throws(() => readWav(new Uint8Array(20)), { code: "CANNOT_READ" });
});

test("each sentence of a file is an utterance, and a long one is cut", async () => {
  const said = [];
  const session = { utterance: async (audio) => said.push(audio.length / 16_000) - 1 };
  assert.deepEqual(await sendFile(session, wav(16_000, [-1, 1, -1.5, 2, -1])), [0, 1]);
  assert.deepEqual(said.map((seconds) => Math.round(seconds * 10) / 10), [1.6, 2.6]);
  const long = [...sentences(readWav(wav(16_000, [45])))];
  assert.ok(long.every(({ length }) => length <= 20 * 16_000));
  assert.equal(long.reduce((sum, { length }) => sum + length, 0), 45 * 16_000);
});

test("framed Opus is found, and PCM is not taken for it", () => {
  const packets = opusPackets(Uint8Array.of(2, 0, 9, 9, 1, 0, 7));
  assert.deepEqual(packets.map(({ length }) => length), [2, 1]);
  assert.equal(opusPackets(Uint8Array.of(2, 0, 9)), null);
  assert.equal(String.fromCharCode(...ogg(packets).subarray(0, 4)), "OggS");
});

class FakeContext {
  sources = [];
  destination = {};
  createGain = () => ({ gain: { value: 1 }, connect: () => {} });
  createBuffer = (_, length) => ({ getChannelData: () => new Float32Array(length) });
  createBufferSource() {
    const source = { connect: () => {}, disconnect: () => {}, start: () => (source.isStarted = true), stop: () => {}, onended: null };
    this.sources.push(source);
    return source;
  }
}

test("translations are played one after another, and the scheduler is told", async () => {
  const told = [];
  const context = new FakeContext();
  const player = new Player({ playback: (type, { trace_id }) => told.push(`${type} ${trace_id}`) }, { context });
  const one = (trace_id) => ({ speech: new Uint8Array(320), speechFormat: "pcm16", message: { trace_id } });
  await Promise.all([player.add(one("a")), player.add(one("b"))]);
  assert.equal(context.sources.length, 1);
  context.sources[0].onended();
  player.hold();
  await player.add(one("c"));
  assert.equal(context.sources.length, 2);
  player.release();
  await new Promise((done) => setTimeout(done, 60));
  assert.deepEqual(told, ["tts_started a", "tts_play_ended a", "tts_started b", "tts_play_ended b", "tts_started c"]);
});
