// Sends the speech of one session: no faster than the socket takes it, not while the scheduler asks for a pause.
import { binaryChunk, textChunk } from "./frames.js";
import type { Outgoing } from "./outgoing.js";
import type { SessionSocket } from "./socket.js";

const MAX_PAUSE_MS = 10_000;
const MAX_BUFFERED_BYTES = 1 << 20;
const LOOK_AGAIN_MS = 100;
// What follows a final too soon is taken for a part of it. After a break all comes at once, so the next utterance waits
// until the one before it has ended, or for this long if that is not announced.
const APART_MS = 1_000;

export interface Line {
  socket: SessionSocket;
  sessionId: string;
  isBinary: boolean;
}

export interface SenderEvents {
  /** A pause is over. */
  resumed(): void;
  /** Everything is sent. */
  allSent(): void;
}

export class Sender {
  readonly #outgoing: Outgoing;
  readonly #on: SenderEvents;
  #line: Line | null = null;
  // Since the last final; 0 once it is known that its utterance has ended.
  #apartUntil = 0;
  #lastSentAt = 0;
  #mayBeSilence = false;
  #pausedUntil = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(outgoing: Outgoing, on: SenderEvents) {
    this.#outgoing = outgoing;
    this.#on = on;
  }

  get isPaused(): boolean {
    return this.#pausedUntil > performance.now();
  }

  /** For how long no speech was sent. */
  get idleMs(): number {
    return performance.now() - this.#lastSentAt;
  }

  /** Null: there is no connection. */
  use(line: Line | null): void {
    this.#line = line;
    // The word that the last utterance has ended may be lost; the next one waits all the same.
    this.#mayBeSilence = false;
  }

  /** Another session begins: it has heard nothing yet. */
  begin(): void {
    this.#apartUntil = 0;
  }

  pauseFor(ms: number): void {
    const pauseMs = Math.max(0, Math.min(ms, MAX_PAUSE_MS));
    this.#pausedUntil = performance.now() + pauseMs;
    this.#pumpLater(pauseMs + 10);
  }

  /** The scheduler has ended an utterance: if it was that of the last final, the next one need not wait. */
  inputEnded(index: number): void {
    this.#outgoing.spans.ended(index, this.#apartUntil > 0);
    if (!this.#apartUntil) return;
    this.#apartUntil = 0;
    this.pump();
  }

  pump(): void {
    const line = this.#line;
    if (!line || this.isPaused) return;
    while (line.socket.bufferedAmount < MAX_BUFFERED_BYTES) {
      if (this.#sendUtterance(line)) continue;
      const waitMs = this.#apartMs();
      if (waitMs > 0) {
        this.#pumpLater(waitMs);
        return;
      }
      if (!this.#sendChunk(line)) {
        this.#on.allSent();
        return;
      }
    }
    this.#pumpLater(LOOK_AGAIN_MS);
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#line = null;
  }

  /** How long the next chunk waits after a final. */
  #apartMs(): number {
    if (!this.#apartUntil || !this.#outgoing.hasUnsentChunks) return 0;
    const waitMs = this.#apartUntil - performance.now();
    if (waitMs > 0) return waitMs;
    this.#apartUntil = 0;
    if (this.#mayBeSilence) this.#outgoing.spans.silent();
    return 0;
  }

  #sendUtterance(line: Line): boolean {
    const message = this.#outgoing.takeUtterance();
    if (!message) return false;
    this.#lastSentAt = performance.now();
    line.socket.post({ ...message, session_id: line.sessionId });
    return true;
  }

  #sendChunk({ socket, sessionId, isBinary }: Line): boolean {
    const chunk = this.#outgoing.takeChunk();
    if (!chunk) return false;
    this.#mayBeSilence = true;
    this.#lastSentAt = performance.now();
    if (chunk.isFinal) this.#apartUntil = performance.now() + APART_MS;
    socket.send((isBinary ? binaryChunk : textChunk)(sessionId, chunk));
    return true;
  }

  #pumpLater(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      if (this.#line) this.#on.resumed();
      this.pump();
    }, ms);
  }
}
