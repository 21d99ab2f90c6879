// Which utterances have their outcome: one may be overtaken by later ones, and one may come again after a break.

export class Outcomes {
  #ahead = new Set();
  #next = null;

  /** The first number without an outcome; null while none is known. */
  get next() {
    return this.#next;
  }

  /** What the scheduler is told after a break: everything up to this has come, null when nothing has. */
  get last() {
    return this.#next === null ? null : this.#next - 1;
  }

  /** An utterance with this number was announced. */
  expect(index) {
    this.#next ??= index;
  }

  /** False when its outcome has come before. */
  add(index) {
    this.expect(index);
    if (index < this.#next || this.#ahead.has(index)) return false;
    this.#ahead.add(index);
    while (this.#ahead.delete(this.#next)) this.#next += 1;
    return true;
  }
}
