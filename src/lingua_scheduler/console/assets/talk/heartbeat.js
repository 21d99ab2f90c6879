// Detects a connection that died without a close frame: soon while an answer is expected, else every twenty seconds.

const BEAT_MS = 2_000;
const ANSWER_WITHIN_MS = 5_000;
const IDLE_BEATS = 10;

export class Heartbeat {
  #on;
  #timer;
  #beats = 0;
  #silentSince = 0;

  /**
   * `look` returns whether an answer is expected, or null when there is no connection.
   * @param {{look(): boolean | null, ask(): void, dead(): void}} on
   */
  constructor(on) {
    this.#on = on;
    this.#timer = setInterval(() => this.#beat(), BEAT_MS);
  }

  /** Whether the other end has been asked, and has not said anything since. */
  get isAwaited() {
    return this.#silentSince !== 0;
  }

  /** Something came. */
  sign() {
    this.#silentSince = 0;
  }

  stop() {
    clearInterval(this.#timer);
  }

  #beat() {
    this.#beats += 1;
    const isWaiting = this.#on.look();
    if (isWaiting === null) return;
    const now = performance.now();
    if (this.#silentSince && now - this.#silentSince > ANSWER_WITHIN_MS) {
      this.#silentSince = 0;
      this.#on.dead();
    } else if (isWaiting || this.#beats % IDLE_BEATS === 0) {
      this.#silentSince ||= now;
      this.#on.ask();
    }
  }
}
