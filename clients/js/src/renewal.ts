// Sends a newer token on an open socket before the one that it was opened with expires.
import type { TokenRefresh } from "./messages.js";

// So long before the end, or after this part of a shorter time; and so often at most, because clocks may differ.
const AHEAD_MS = 60_000;
const PART = 0.75;
const MIN_PAUSE_MS = 5_000;
// By our clock the token has expired, though it was just accepted: the clock is wrong.
const WRONG_CLOCK_MS = 30_000;
// Longer timers end at once.
const MAX_TIMER_MS = 2 ** 31 - 1;

export class Renewal {
  readonly #fetch: () => Promise<string>;
  readonly #send: (message: TokenRefresh) => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isStopped = false;

  /** `fetch` returns "" if there is no newer token. */
  constructor(fetch: () => Promise<string>, send: (message: TokenRefresh) => void) {
    this.#fetch = fetch;
    this.#send = send;
  }

  /** `atMs`: when the present token does; 0 = never. */
  expires(atMs: number): void {
    clearTimeout(this.#timer);
    if (!atMs || this.#isStopped) return;
    this.#timer = setTimeout(() => void this.#renew(atMs), Math.min(pauseMs(atMs - Date.now()), MAX_TIMER_MS));
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  async #renew(atMs: number): Promise<void> {
    // If there is none, the scheduler closes the socket in the end, and the next one asks again.
    const token = await this.#fetch().catch(() => "");
    if (this.#isStopped) return;
    if (token) this.#send({ type: "token_refresh", token });
    // Until the acknowledgement of the newer one begins the next turn.
    this.expires(atMs);
  }
}

export function pauseMs(leftMs: number): number {
  if (leftMs <= 0) return WRONG_CLOCK_MS;
  return Math.max(MIN_PAUSE_MS, leftMs - AHEAD_MS, leftMs * PART);
}
