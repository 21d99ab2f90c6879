// Audio as the scheduler takes it: binary frames where it agreed to them, base64 in JSON otherwise.
import type { AudioChunk } from "./messages.js";

/** PCM16 little-endian or framed Opus, 16 kHz mono. */
export type Audio = Int16Array | Uint8Array | ArrayBuffer;

export interface Chunk {
  seq: number;
  audio: Uint8Array;
  isFinal: boolean;
  /** When it was said, in ms since 1970. */
  at: number;
}

const CHUNK = 0x01;
const HEAD_BYTES = 12;
// More arguments than this overflow the stack of some engines.
const PIECE = 0x8000;

/** A copy: the caller may use its buffer again. */
export function bytesOf(audio: Audio): Uint8Array {
  if (audio instanceof ArrayBuffer) return new Uint8Array(audio.slice(0));
  return new Uint8Array(audio.buffer, audio.byteOffset, audio.byteLength).slice();
}

/** type u8 · id length u8 · seq u32 · timestamp u32 · is_final u8 · reserved u8 · session id · audio */
export function binaryChunk(sessionId: string, { seq, audio, isFinal }: Chunk): Uint8Array {
  const id = new TextEncoder().encode(sessionId);
  const frame = new Uint8Array(HEAD_BYTES + id.length + audio.length);
  const head = new DataView(frame.buffer);
  head.setUint8(0, CHUNK);
  head.setUint8(1, id.length);
  head.setUint32(2, seq, true);
  head.setUint32(6, Date.now() % 2 ** 32, true);
  head.setUint8(10, isFinal ? 1 : 0);
  frame.set(id, HEAD_BYTES);
  frame.set(audio, HEAD_BYTES + id.length);
  return frame;
}

export function textChunk(sessionId: string, { seq, audio, isFinal }: Chunk): string {
  const message: AudioChunk = {
    type: "audio_chunk",
    session_id: sessionId,
    seq,
    is_final: isFinal,
    payload: toBase64(audio),
  };
  return JSON.stringify(message);
}

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE) text += String.fromCharCode(...bytes.subarray(at, at + PIECE));
  return btoa(text);
}

/** Empty if it is none: a text need not be lost because its speech cannot be read. */
export function fromBase64(text: string): Uint8Array {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return new Uint8Array();
  }
}
