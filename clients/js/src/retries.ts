// How long to wait before the next try to connect.

const FIRST_MS = 200;
const LAST_MS = 4_000;

export class Retries {
  #ms = FIRST_MS;
  #go: () => void = () => {};

  /** A try has succeeded. */
  reset(): void {
    this.#ms = FIRST_MS;
  }

  /** Full jitter, so that many clients do not come back all at once. */
  async pause(): Promise<void> {
    const waitMs = Math.random() * this.#ms;
    this.#ms = Math.min(this.#ms * 2, LAST_MS);
    await new Promise<void>((go) => {
      const timer = setTimeout(go, waitMs);
      this.#go = () => {
        clearTimeout(timer);
        go();
      };
    });
  }

  /** Ends the present pause. */
  hurry(): void {
    this.#go();
  }
}
