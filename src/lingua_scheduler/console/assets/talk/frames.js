// Audio as the scheduler takes it: binary frames where it agreed to them, base64 in JSON otherwise.

/** @import {Chunk} from "./outgoing.js" */

const CHUNK = 0x01;
const CHUNK_HEAD_BYTES = 12;

/**
 * type u8 · id length u8 · seq u32 · timestamp u32 · is_final u8 · reserved u8 · session id · audio
 * @param {string} sessionId
 * @param {Chunk} chunk
 */
export function binaryChunk(sessionId, { seq, audio, isFinal }) {
  const id = new TextEncoder().encode(sessionId);
  const frame = new Uint8Array(CHUNK_HEAD_BYTES + id.length + audio.byteLength);
  const head = new DataView(frame.buffer);
  head.setUint8(0, CHUNK);
  head.setUint8(1, id.length);
  head.setUint32(2, seq, true);
  head.setUint32(6, Date.now() % 2 ** 32, true);
  head.setUint8(10, isFinal ? 1 : 0);
  frame.set(id, CHUNK_HEAD_BYTES);
  frame.set(new Uint8Array(audio.buffer, audio.byteOffset, audio.byteLength), CHUNK_HEAD_BYTES + id.length);
  return frame;
}

/**
 * @param {string} sessionId
 * @param {Chunk} chunk
 */
export function textChunk(sessionId, { seq, audio, isFinal }) {
  const bytes = new Uint8Array(audio.buffer, audio.byteOffset, audio.byteLength);
  const payload = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
  return JSON.stringify({ type: "audio_chunk", session_id: sessionId, seq, is_final: isFinal, payload });
}
