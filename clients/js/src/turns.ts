// Calls that wait until there is room: in their order, and not more than are worth keeping.
import { BufferFull } from "./errors.js";

const MAX_WAITING = 1_000;

export class Turns {
  #last: Promise<void> = Promise.resolve();
  #waiting = 0;

  get areWaiting(): boolean {
    return this.#waiting > 0;
  }

  /** Acts after the calls before it, and when it may. Throws BufferFull, and what those throw. */
  async take<Value>(mayAct: () => Promise<void>, act: () => Value): Promise<Value> {
    if (this.#waiting >= MAX_WAITING) throw new BufferFull(`${MAX_WAITING} calls wait until the scheduler takes more; await each of them`);
    this.#waiting += 1;
    const before = this.#last;
    let done = () => {};
    this.#last = new Promise((resolve) => (done = resolve));
    try {
      await before;
      await mayAct();
      return act();
    } finally {
      this.#waiting -= 1;
      done();
    }
  }
}
