import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";
import { load } from "./built.mjs";

const { Player } = await load("playback");

let told;
let context;
let player;

/** Decodes samples at once, a WAV file after a while, and nothing else. */
class FakeContext {
  sources = [];
  destination = "loudspeaker";
  gain = { gain: { value: 1 }, connect: (to) => (this.output = to) };
  createGain = () => this.gain;
  createBuffer = (_, length) => ({ length, getChannelData: () => new Float32Array(length) });
  createBufferSource() {
    const source = { connect: () => {}, disconnect: () => {}, start: () => {}, stop: () => {}, onended: null };
    this.sources.push(source);
    return source;
  }

  async decodeAudioData(bytes) {
    if (bytes.byteLength < 4) throw new Error("not a sound");
    await new Promise((done) => setTimeout(done, 5));
    return { length: "wav" };
  }
}

beforeEach(() => {
  told = [];
  context = new FakeContext();
  player = new Player(named("one"), { context, onError: ({ message }) => told.push(message) });
});

const named = (name) => ({ playback: (type, { trace_id }) => told.push(`${name} ${type} ${trace_id}`) });
const spoken = (trace_id, speech = new Uint8Array(4), speechFormat = "pcm16") => ({ speech, speechFormat, message: { trace_id } });
const end = () => context.sources.at(-1).onended();
const news = () => told.splice(0);

test("speech is played in the order in which it came, however long it takes to decode", async () => {
  const wav = Uint8Array.from("RIFF", (char) => char.charCodeAt(0));
  await Promise.all([player.add(spoken("wav", wav)), player.add(spoken("pcm"))]);
  assert.deepEqual(news(), ["one tts_started wav"]);
  end();
  assert.deepEqual(news(), ["one tts_play_ended wav", "one tts_started pcm"]);
});

test("speech that cannot be decoded is told, and the next one is played", async () => {
  await Promise.all([player.add(spoken("bad", new Uint8Array(2), "mp3")), player.add(spoken("good"))]);
  assert.deepEqual(news(), ["not a sound", "one tts_started good"]);
});

test("what becomes of a translation is told, and it can be played again", async () => {
  const clips = [];
  const on = { ready: (clip) => clips.push(clip), started: () => told.push("started"), ended: () => told.push("ended") };
  await player.add(spoken("a"), on, named("two"));
  end();
  assert.deepEqual(news(), ["two tts_started a", "started", "two tts_play_ended a", "ended"]);
  await player.add(spoken("b"));
  player.replay(clips[0]);
  assert.deepEqual(news(), ["one tts_started b", "one tts_play_ended b", "two tts_started a", "started"]);
});

test("without sound nothing is played, but it is made ready", async () => {
  player.volume = 0;
  let ready = 0;
  await player.add(spoken("a"), { ready: () => (ready += 1) });
  assert.deepEqual([ready, context.sources.length, news()], [1, 0, []]);
  player.volume = 0.5;
  await player.add(spoken("b"));
  assert.deepEqual(news(), ["one tts_started b"]);
});

test("without speech there is nothing to play, and the sound goes where it is led", async () => {
  let ready = 0;
  await player.add(spoken("a", new Uint8Array()), { ready: () => (ready += 1) });
  assert.deepEqual([ready, context.output], [0, "loudspeaker"]);
  new Player(named("one"), { context, output: "meter" });
  assert.equal(context.output, "meter");
});
