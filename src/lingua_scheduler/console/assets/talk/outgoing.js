// Speech on its way: numbered, and kept for a while in case a breaking connection swallowed it.

// As long as the scheduler may ask for it again: about a minute and a half of 100 ms chunks.
const MAX_KEPT = 900;
// What may be said while nobody takes it.
const MAX_UNSENT = 300;
// Older speech is not worth translating in a session that begins anew.
const STALE_MS = 60_000;

export class Outgoing {
  #chunks = [];
  #nextSeq = 0;
  #sendFrom = 0;
  // Where each utterance without an outcome begins; `end` is null while it is being said.
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

  /** The session goes on, and this is the first chunk it does not have. */
  resumed(nextSeq) {
    this.#sendFrom = nextSeq;
  }

  /** The session is gone. What has no outcome is said again in the next one, which counts from 0.
   * Returns how many finished utterances were too old for that. */
  restarted() {
    const since = Date.now() - STALE_MS;
    const kept = new Map(this.#chunks.map((chunk) => [chunk.seq, chunk]));
    const isWorth = ({ start, end }) => kept.has(start) && (end === null || kept.get(end).at > since);
    const again = this.#unanswered.filter(isWorth);
    const lost = this.#unanswered.length - again.length;
    this.#chunks = [];
    this.#unanswered = [];
    const former = this.#nextSeq;
    this.#nextSeq = this.#sendFrom = 0;
    for (const { start, end } of again) {
      for (let seq = start; seq <= (end ?? former - 1); seq++) this.add(kept.get(seq).audio, seq === end);
    }
    return lost;
  }
}
