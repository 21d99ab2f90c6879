// Speech on its way: numbered, and kept for a while in case a breaking connection swallowed it.
import type { Chunk } from "./frames.js";
import type { Utterance } from "./messages.js";
import { Spans } from "./spans.js";

// Two minutes of PCM16; older audio has been translated or is no longer needed.
const MAX_BYTES = 4_000_000;
const MAX_CHUNKS = 20_000;
// Whole utterances under way at once.
export const MAX_UNANSWERED = 64;
const MAX_UNANSWERED_CHARS = 12_000_000;
// Older speech is not worth translating in a session that begins again.
const STALE_MS = 60_000;

export class Outgoing {
  #chunks: Chunk[] = [];
  #bytes = 0;
  #unsentBytes = 0;
  #nextSeq = 0;
  #sendFrom = 0;
  readonly #utterances = new Map<number, Utterance>();
  #utteranceChars = 0;
  // The numbers of utterances that are not sent yet.
  #unsent: number[] = [];
  readonly spans = new Spans();

  /** No more chunks can be kept without forgetting some that were not sent. */
  get isFull(): boolean {
    return this.#unsentBytes >= MAX_BYTES || this.#nextSeq - this.#sendFrom >= MAX_CHUNKS;
  }

  get nextSeq(): number {
    return this.#nextSeq;
  }

  get unsentBytes(): number {
    return this.#unsentBytes;
  }

  get hasManyUnanswered(): boolean {
    return this.#utterances.size >= MAX_UNANSWERED || this.#utteranceChars >= MAX_UNANSWERED_CHARS;
  }

  get hasUnsentChunks(): boolean {
    return this.#sendFrom < this.#nextSeq;
  }

  get isAnswered(): boolean {
    return this.#utterances.size === 0 && this.spans.areAnswered;
  }

  /** Nothing is being said, and nothing waits to be sent. */
  get isIdle(): boolean {
    return !this.hasUnsentChunks && this.#utterances.size === 0 && this.spans.areOver;
  }

  /** The lowest number of an utterance without an outcome. */
  get firstUnanswered(): number {
    return Math.min(Infinity, ...this.#utterances.keys());
  }

  add(audio: Uint8Array, isFinal: boolean, at = Date.now()): void {
    const chunk = { seq: this.#nextSeq++, audio, isFinal, at };
    this.spans.add(chunk.seq, isFinal);
    this.#chunks.push(chunk);
    this.#bytes += audio.length;
    this.#unsentBytes += audio.length;
    while (this.#bytes > MAX_BYTES || this.#chunks.length > MAX_CHUNKS) {
      if (this.#chunks[0]!.seq >= this.#sendFrom) break;
      this.#bytes -= this.#chunks.shift()!.audio.length;
    }
  }

  addUtterance(message: Utterance): void {
    this.#utterances.set(message.utterance_index, message);
    this.#utteranceChars += message.audio.length;
    this.#unsent.push(message.utterance_index);
  }

  /** The next chunk to send, or undefined; it counts as sent. */
  takeChunk(): Chunk | undefined {
    const first = this.#chunks[0]?.seq ?? this.#nextSeq;
    const chunk = this.#chunks[Math.max(this.#sendFrom, first) - first];
    if (!chunk) return undefined;
    this.#sendFrom = chunk.seq + 1;
    this.#unsentBytes -= chunk.audio.length;
    this.spans.sent(chunk.seq);
    return chunk;
  }

  /** The next whole utterance to send, or undefined; it counts as sent. */
  takeUtterance(): Utterance | undefined {
    const index = this.#unsent.shift();
    return index === undefined ? undefined : this.#utterances.get(index);
  }

  answered(index: number): void {
    const message = this.#utterances.get(index);
    if (!message) {
      this.spans.answered(index);
      return;
    }
    this.#utterances.delete(index);
    this.#utteranceChars -= message.audio.length;
    this.#unsent = this.#unsent.filter((other) => other !== index);
  }

  /** The session goes on, and this is the first chunk it does not have. Whole utterances are recognised if they come again. */
  resumed(nextSeq: number): void {
    this.#sendFrom = Math.min(nextSeq, this.#nextSeq);
    const unsent = this.#chunks.filter(({ seq }) => seq >= this.#sendFrom);
    this.#unsentBytes = unsent.reduce((sum, { audio }) => sum + audio.length, 0);
    this.#unsent = [...this.#utterances.keys()];
  }

  /** The session is gone, and another one begins: what has no outcome is said again, under numbers that are higher than any index.
   * Returns how many stretches of speech were too old for that. */
  restarted(nextIndex: number): number {
    const since = Date.now() - STALE_MS;
    const kept = new Map(this.#chunks.map((chunk) => [chunk.seq, chunk]));
    const last = this.#nextSeq - 1;
    let lost = 0;
    this.#chunks = [];
    this.#bytes = this.#unsentBytes = 0;
    this.#nextSeq = this.#sendFrom = Math.max(this.#nextSeq, nextIndex);
    for (const { start, end } of this.spans.clear()) {
      const at = kept.get(end ?? last)?.at ?? 0;
      if (!kept.has(start) || at < since) {
        lost += 1;
        continue;
      }
      for (let seq = start; seq <= (end ?? last); seq++) {
        const chunk = kept.get(seq)!;
        this.add(chunk.audio, chunk.isFinal, chunk.at);
      }
    }
    this.#unsent = [...this.#utterances.keys()];
    return lost;
  }
}
