// Sends the speech of one session: no faster than the socket takes it, not while the scheduler asks for a pause.
import { binaryChunk, textChunk } from "./frames.js";

/** @import {Outgoing} from "./outgoing.js" */

const MAX_PAUSE_MS = 10_000;
const MAX_BUFFERED_BYTES = 1 << 20;
const LOOK_AGAIN_MS = 100;
// What follows a final too soon is taken for a part of it. After a break all comes at once, so the next utterance waits
// until the one before it has ended, or for this long if that is not announced.
const APART_MS = 1_000;

/** @typedef {{socket: WebSocket, sessionId: string, isBinary: boolean}} Session */

export class Sender {
  #outgoing;
  #on;
  /** @type {Session | null} */
  #session = null;
  #apartUntil = 0;
  #lastSentAt = 0;
  #pausedUntil = 0;
  /** @type {number | undefined} */
  #timer;

  /**
   * @param {Outgoing} outgoing
   * @param {{resumed(): void, allSent(): void}} on resumed: a pause is over
   */
  constructor(outgoing, on) {
    this.#outgoing = outgoing;
    this.#on = on;
  }

  get isPaused() {
    return this.#pausedUntil > performance.now();
  }

  /** For how long nothing was sent. */
  get idleMs() {
    return performance.now() - this.#lastSentAt;
  }

  /** @param {Session | null} session null: there is no connection */
  use(session) {
    this.#session = session;
  }

  /** @param {number} ms */
  pauseFor(ms) {
    const pauseMs = Math.min(ms, MAX_PAUSE_MS);
    this.#pausedUntil = performance.now() + pauseMs;
    this.#pumpLater(pauseMs + 10);
  }

  /** The utterance that was sent last has ended: the next one need not wait. */
  inputEnded() {
    if (!this.#apartUntil) return;
    this.#apartUntil = 0;
    this.pump();
  }

  pump() {
    const session = this.#session;
    if (!session || this.isPaused) return;
    while (session.socket.bufferedAmount < MAX_BUFFERED_BYTES) {
      const now = performance.now();
      if (this.#outgoing.hasUnsent && now < this.#apartUntil) {
        this.#pumpLater(this.#apartUntil - now);
        return;
      }
      const chunk = this.#outgoing.take();
      if (!chunk) {
        this.#on.allSent();
        return;
      }
      this.#apartUntil = chunk.isFinal ? now + APART_MS : 0;
      this.#lastSentAt = now;
      const framed = session.isBinary ? binaryChunk : textChunk;
      session.socket.send(framed(session.sessionId, chunk));
    }
    this.#pumpLater(LOOK_AGAIN_MS);
  }

  close() {
    clearTimeout(this.#timer);
  }

  /** @param {number} ms */
  #pumpLater(ms) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (this.#session) this.#on.resumed();
      this.pump();
    }, ms);
  }
}
