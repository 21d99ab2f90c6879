import assert from "node:assert/strict";
import { test } from "node:test";

import { binaryChunk, textChunk } from "../../../../src/lingua_scheduler/console/assets/talk/frames.js";

const CHUNK = { seq: 258, audio: Int16Array.of(1, -1), isFinal: true, at: 0 };

test("a binary frame has its head, the session and the samples", () => {
  const frame = binaryChunk("s-1", CHUNK);
  assert.equal(frame.length, 12 + 3 + 4);
  assert.deepEqual([...frame.slice(0, 6)], [1, 3, 2, 1, 0, 0]);
  assert.equal(frame[10], 1);
  assert.equal(new TextDecoder().decode(frame.slice(12, 15)), "s-1");
  assert.deepEqual([...frame.slice(15)], [1, 0, 255, 255]);
});

test("a text frame carries the same samples as base64", () => {
  const { type, session_id, seq, is_final, payload } = JSON.parse(textChunk("s-1", CHUNK));
  assert.deepEqual([type, session_id, seq, is_final], ["audio_chunk", "s-1", 258, true]);
  assert.deepEqual([...atob(payload)].map((char) => char.charCodeAt(0)), [1, 0, 255, 255]);
});
