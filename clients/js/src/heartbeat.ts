// Detects a connection that died without a close frame: soon while an answer is expected, else every twenty seconds.

const BEAT_MS = 2_000;
const ANSWER_WITHIN_MS = 5_000;
const IDLE_BEATS = 10;

export interface HeartbeatEvents {
  /** Whether an answer is expected; null when there is no connection. */
  look(): boolean | null;
  ask(): void;
  dead(): void;
}

export class Heartbeat {
  readonly #on: HeartbeatEvents;
  readonly #timer: ReturnType<typeof setInterval>;
  #beats = 0;
  #silentSince = 0;

  constructor(on: HeartbeatEvents) {
    this.#on = on;
    this.#timer = setInterval(() => this.#beat(), BEAT_MS);
  }

  /** The other end was asked for a sign and has not given one. */
  get isAwaited(): boolean {
    return this.#silentSince > 0;
  }

  /** Something came. */
  sign(): void {
    this.#silentSince = 0;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #beat(): void {
    this.#beats += 1;
    const isWaiting = this.#on.look();
    if (isWaiting === null) {
      this.#silentSince = 0;
      return;
    }
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
