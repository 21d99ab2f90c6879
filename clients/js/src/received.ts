// Which numbers have arrived: outcomes may overtake each other, and some come again after a break.
import type { SessionInit } from "./messages.js";

// The scheduler keeps no more outcomes for a client that is away. What is missing for longer does not come any more.
const MAX_AHEAD = 512;

export class Received {
  #next: number;
  readonly #ahead = new Set<number>();

  /** `first`: no number is lower. */
  constructor(first = 0) {
    this.#next = first;
  }

  /** Everything up to this number has arrived. */
  get last(): number {
    return this.#next - 1;
  }

  /** For the session that goes on after a break. */
  greeting(): Partial<SessionInit> {
    return this.last < 0 ? {} : { last_utterance_index: this.last };
  }

  has(number: number): boolean {
    return number < this.#next || this.#ahead.has(number);
  }

  /** False when it has arrived before. */
  add(number: number): boolean {
    if (this.has(number)) return false;
    this.#ahead.add(number);
    this.#advance();
    if (this.#ahead.size > MAX_AHEAD) {
      this.#next = Math.min(...this.#ahead);
      this.#advance();
    }
    return true;
  }

  #advance(): void {
    while (this.#ahead.delete(this.#next)) this.#next += 1;
  }
}
