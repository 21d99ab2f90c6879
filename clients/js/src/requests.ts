// Requests to a room, one at a time: a refusal does not say what was refused.
import { RoomRefused } from "./errors.js";
import type { RoomEvent } from "./room-events.js";

const ANSWER_WITHIN_MS = 10_000;

type Asked = { isDone(event: RoomEvent): boolean; done(): void; fail(error: Error): void };

export class Requests {
  #asked: Asked | null = null;
  #turn: Promise<void> = Promise.resolve();

  /** Sends after the requests before it have their answer; until an event tells that it is done. Throws RoomRefused. */
  async make(send: () => void, isDone: (event: RoomEvent) => boolean): Promise<void> {
    const answered = this.#after(this.#turn, send, isDone);
    this.#turn = answered.catch(() => {});
    await answered;
  }

  told(event: RoomEvent): void {
    if (this.#asked?.isDone(event)) this.#asked.done();
  }

  /** Whether something was asked. */
  refused(error: Error): boolean {
    this.#asked?.fail(error);
    return this.#asked !== null;
  }

  async #after(before: Promise<void>, send: () => void, isDone: (event: RoomEvent) => boolean): Promise<void> {
    await before;
    try {
      await inTime((done, fail) => {
        this.#asked = { isDone, done, fail };
        send();
      });
    } finally {
      this.#asked = null;
    }
  }
}

/** Until `done` or `fail` is called. Throws RoomRefused if that takes too long. */
export async function inTime(begin: (done: () => void, fail: (error: Error) => void) => void): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  try {
    await new Promise<void>((done, fail) => {
      begin(done, fail);
      const late = new RoomRefused("NO_ANSWER", `the scheduler did not answer within ${ANSWER_WITHIN_MS / 1000} s; try again`);
      timer = setTimeout(() => fail(late), ANSWER_WITHIN_MS);
    });
  } finally {
    clearTimeout(timer);
  }
}
