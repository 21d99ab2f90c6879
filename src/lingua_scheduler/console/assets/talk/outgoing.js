// Speech on its way: numbered, and kept for a while in case a breaking connection swallowed it.

// As long as the scheduler may ask for it again: about a minute and a half of 100 ms chunks.
const MAX_KEPT = 900;
// Maximum speech kept while there is no connection.
const MAX_UNSENT = 300;
// Older speech is not worth translating in a session that begins anew.
const STALE_MS = 60_000;

/** @typedef {{seq: number, audio: Int16Array, isFinal: boolean, at: number}} Chunk */
/** @typedef {{start: number, end: number | null}} Spoken where an utterance begins and ends */

export class Outgoing {
  /** @type {Chunk[]} */
  #chunks = [];
  #nextSeq = 0;
  #sendFrom = 0;
  // Where each utterance without an outcome begins; `end` is null while it is being said.
  /** @type {Spoken[]} */
  #unanswered = [];

  get isFull() {
    return this.#nextSeq - this.#sendFrom >= MAX_UNSENT;
  }

  get isAnswered() {
    return this.#unanswered.length === 0;
  }

  get hasUnsent() {
    return this.#sendFrom < this.#nextSeq;
  }

  /** Nothing is being said, and nothing of it waits here. */
  get isIdle() {
    return !this.hasUnsent && this.#unanswered.at(-1)?.end !== null;
  }

  /**
   * @param {Int16Array} audio
   * @param {boolean} isFinal
   */
  add(audio, isFinal) {
    const chunk = { seq: this.#nextSeq++, audio, isFinal, at: Date.now() };
    let spoken = this.#unanswered.at(-1);
    if (!spoken || spoken.end !== null) {
      spoken = { start: chunk.seq, end: null };
      this.#unanswered.push(spoken);
    }
    if (isFinal) spoken.end = chunk.seq;
    this.#chunks.push(chunk);
    if (this.#chunks.length > MAX_KEPT) this.#chunks.shift();
  }

  /** The next chunk to send, or undefined; it counts as sent. */
  take() {
    const first = this.#chunks[0]?.seq ?? this.#nextSeq;
    const chunk = this.#chunks[Math.max(this.#sendFrom, first) - first];
    if (chunk) this.#sendFrom = chunk.seq + 1;
    return chunk;
  }

  /** An outcome has come: the oldest finished utterance has its answer. */
  answered() {
    if (this.#unanswered[0]?.end != null) this.#unanswered.shift();
  }

  /** Every outcome has come, though there may have been fewer than utterances: some were taken for one. */
  settled() {
    this.#unanswered = [];
  }

  /**
   * The session goes on, and this is the first chunk it does not have.
   * @param {number} nextSeq
   */
  resumed(nextSeq) {
    this.#sendFrom = nextSeq;
  }

  /** The session is gone. What has no outcome is said again in the next one, which counts from 0.
   * Returns how many finished utterances were too old for that. */
  restarted() {
    const since = Date.now() - STALE_MS;
    const kept = new Map(this.#chunks.map((chunk) => [chunk.seq, chunk]));
    const isWorth = (/** @type {Spoken} */ { start, end }) =>
      kept.has(start) && (end === null || (kept.get(end)?.at ?? 0) > since);
    const again = this.#unanswered.filter(isWorth);
    const lost = this.#unanswered.length - again.length;
    this.#chunks = [];
    this.#unanswered = [];
    const former = this.#nextSeq;
    this.#nextSeq = this.#sendFrom = 0;
    for (const { start, end } of again) {
      for (let seq = start; seq <= (end ?? former - 1); seq++) {
        const chunk = kept.get(seq);
        if (chunk) this.add(chunk.audio, seq === end);
      }
    }
    return lost;
  }
}
