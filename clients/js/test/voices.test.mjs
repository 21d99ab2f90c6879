import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { load } from "./built.mjs";
import { restoreTime, settle, stopTime } from "./clock.mjs";

const { Voices } = await load("voices");

/** The little of a peer connection that decides: its descriptions and its states. */
class FakePeer {
  static all = [];
  signalingState = "stable";
  connectionState = "new";
  localDescription = null;
  remoteDescription = null;
  candidates = [];
  tracks = [];
  restarts = 0;
  isClosed = false;
  onicecandidate = null;
  onconnectionstatechange = null;
  #sender = { replaceTrack: async (track) => void this.tracks.push(track), setStreams: () => {} };

  constructor() {
    FakePeer.all.push(this);
  }

  addTransceiver() {
    return { sender: this.#sender };
  }

  getTransceivers() {
    return [{ direction: "recvonly", sender: this.#sender }];
  }

  restartIce() {
    this.restarts += 1;
  }

  createOffer = async () => ({ type: "offer", sdp: "" });
  createAnswer = async () => ({ type: "answer", sdp: "" });

  
  async setLocalDescription(description) {
    this.localDescription = description;
    this.signalingState = description.type === "offer" ? "have-local-offer" : "stable";
  }

  
  async setRemoteDescription(description) {
    this.remoteDescription = description;
    this.signalingState = description.type === "offer" ? "have-remote-offer" : "stable";
  }

  
  async addIceCandidate(candidate) {
    this.candidates.push(candidate);
  }

  close() {
    this.isClosed = true;
  }
}

const CODE = "483920";
let sent = [];
let voices;
let pass;

/** A room, of which the test tells. */
const listeners = new Map();
const room = {
  on(kind, listener) {
    listeners.set(kind, listener);
    return () => listeners.delete(kind);
  },
  signal: ({ type, to }) => sent.push(`${type} ${to}`),
};
const told = (kind, more) => listeners.get(kind)?.({ kind, ...more });

beforeEach(() => {
  pass = stopTime();
  FakePeer.all = [];
  sent = [];
  Object.assign(globalThis, { MediaStream: class {} });
  voices = new Voices(
    {
      heard: () => {},
      gone: (id) => sent.push(`gone ${id}`),
      changed: () => {},
    },
    () => new FakePeer(),
  );
  voices.follow(room);
  told("entered", { code: CODE, sessionId: "me", iceServers: [] });
});
afterEach(() => {
  voices.leave();
  restoreTime();
});

async function signal(type, to, more = {}) {
  const fields = type === "webrtc_ice" ? { candidate: more } : { sdp: { type: type.slice(7), sdp: "", ...more } };
  told("signal", { signal: { type, room_code: CODE, to, ...fields } });
  await settle();
}

async function tell(...ids) {
  told("members", { members: ids.map((sessionId) => ({ sessionId })) });
  await settle();
}

test("those who are there offer to one that comes", async () => {
  await tell("me");
  await tell("me", "a");
  assert.deepEqual(sent, ["webrtc_offer a"]);
  await tell("me", "a");
  assert.equal(sent.length, 1);
});

test("one that comes waits for offers, answers them, and offers to those who did not", async () => {
  await tell("a", "b", "me");
  assert.deepEqual(sent, []);
  await signal("webrtc_offer", "a");
  assert.deepEqual(sent, ["webrtc_answer a"]);
  await pass(2_100);
  assert.deepEqual(sent, ["webrtc_answer a", "webrtc_offer b"]);
});

test("an offer that arrives beside an own one is the one that counts", async () => {
  await tell("me");
  await tell("me", "a");
  await signal("webrtc_offer", "a");
  assert.deepEqual(sent, ["webrtc_offer a", "gone a", "webrtc_answer a"]);
  assert(FakePeer.all[0].isClosed);
});

test("candidates that come before the description wait for it", async () => {
  await tell("me");
  await tell("me", "a");
  await signal("webrtc_ice", "a", { candidate: "early" });
  assert.deepEqual(FakePeer.all[0].candidates, []);
  await signal("webrtc_answer", "a");
  await signal("webrtc_ice", "a", { candidate: "later" });
  assert.deepEqual(FakePeer.all[0].candidates.map(({ candidate }) => candidate), ["early", "later"]);
});

test("signals of strangers and of other rooms are not listened to", async () => {
  await tell("me", "a");
  await signal("webrtc_offer", "stranger");
  told("signal", { signal: { type: "webrtc_offer", room_code: "111111", to: "a", sdp: { type: "offer" } } });
  await settle();
  assert.equal(FakePeer.all.length, 0);
});

test("the same member with another connection gets another link; a restart keeps the one there is", async () => {
  await tell("a", "me");
  await signal("webrtc_offer", "a", { sdp: "a=fingerprint:sha-256 11" });
  await signal("webrtc_offer", "a", { sdp: "a=fingerprint:sha-256 11\r\na=ice-ufrag:x" });
  assert.equal(FakePeer.all.length, 1);
  await signal("webrtc_offer", "a", { sdp: "a=fingerprint:sha-256 22" });
  assert.deepEqual(FakePeer.all.map(({ isClosed }) => isClosed), [true, false]);
});

test("a link that failed is restarted a few times", async () => {
  await tell("a", "me");
  await signal("webrtc_offer", "a");
  const [peer] = FakePeer.all;
  peer.connectionState = "failed";
  for (let time = 0; time < 6; time += 1) {
    peer.onconnectionstatechange();
    await pass(6_000);
    await signal("webrtc_answer", "a");
  }
  assert.equal(peer.restarts, 3);
});

test("the microphone is put into all links, also later ones", async () => {
  await tell("me");
  await tell("me", "a");
  const track = {};
  voices.use(track);
  await tell("me", "a", "b");
  assert.equal(FakePeer.all[0].tracks.at(-1), track);
  assert.equal(FakePeer.all[1].tracks.at(-1), track);
});

test("one who leaves, or never answers, has no link", async () => {
  await tell("me");
  await tell("me", "a", "b");
  await signal("webrtc_answer", "a");
  await pass(60_100);
  assert.deepEqual(FakePeer.all.map(({ isClosed }) => isClosed), [false, true]);
  await tell("me");
  assert(FakePeer.all[0].isClosed);
});

test("of a room that was left nothing is listened to", async () => {
  await tell("me");
  voices.leave();
  assert.equal(listeners.size, 0);
  voices.follow(room);
  await tell("a");
  assert.deepEqual(sent, []);
});
