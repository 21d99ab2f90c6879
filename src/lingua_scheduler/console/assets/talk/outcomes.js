// Which utterances have their outcome: one may be overtaken by later ones, and one may come again after a break.

export class Outcomes {
  /** @type {Set<number>} */
  #ahead = new Set();
  /** @type {number | null} */
  #next = null;
  /** @type {number | null} */
  #lastAnnounced = null;

  /** Sent to the scheduler when resuming: every outcome up to this number was received; null if none was. */
  get last() {
    return this.#next === null ? null : this.#next - 1;
  }

  /** Whether the session has not spoken of any utterance. */
  get isEmpty() {
    return this.#next === null;
  }

  /** Whether every announced utterance has its outcome; false if the scheduler announces none. */
  get isComplete() {
    return this.#next !== null && this.#lastAnnounced !== null && this.#lastAnnounced < this.#next;
  }

  /**
   * The session has spoken of an utterance with this number.
   * @param {number} index
   */
  announce(index) {
    this.#next ??= index;
    this.#lastAnnounced = Math.max(this.#lastAnnounced ?? 0, index);
  }

  /**
   * The session goes on, and its next utterance has this number.
   * @param {number} nextIndex
   */
  resumed(nextIndex) {
    if (this.#lastAnnounced !== null) this.#lastAnnounced = nextIndex - 1;
  }

  /**
   * False when its outcome has come before.
   * @param {number} index
   */
  add(index) {
    let next = this.#next ?? index;
    if (index < next || this.#ahead.has(index)) return false;
    this.#ahead.add(index);
    while (this.#ahead.delete(next)) next += 1;
    this.#next = next;
    return true;
  }
}
