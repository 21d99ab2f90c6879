// One EventSource: a whole picture first, then changes; opened again whenever it breaks or falls silent.

/** @import {Change, PictureMessage} from "../shared/types" */

const QUIET_MS = 10_000;
const SILENT_MS = 30_000;
const LOOK_MS = 1000;
const RETRY_MS = 2000;
const RETRY_MAX_MS = 15_000;

/** @typedef {"connecting" | "live" | "quiet" | "away"} Connection quiet: nothing new for a while */
/**
 * @typedef {object} StreamEvents
 * @property {(message: PictureMessage) => void} onPicture
 * @property {(change: Change) => boolean} onChange false: something is missing before it
 * @property {(state: Connection) => void} onState
 * @property {() => void} [onBroken] also when it was not open before
 */

export class Stream {
  /**
   * @param {string} url
   * @param {StreamEvents} on
   */
  constructor(url, { onPicture, onChange, onState, onBroken }) {
    this.url = url;
    this.onPicture = onPicture;
    this.onChange = onChange;
    this.onState = onState;
    this.onBroken = onBroken;
    /** @type {Connection} */
    this.state = "connecting";
    this.retryMs = RETRY_MS;
    /** @type {number | undefined} */
    this.retryTimer = undefined;
    this.heardAt = performance.now();
    /** @type {EventSource | null} */
    this.source = null;
    setInterval(() => this.look(), LOOK_MS);
    // What was asleep with the laptop is not trusted.
    addEventListener("online", () => this.source && this.open());
  }

  close() {
    clearTimeout(this.retryTimer);
    this.source?.close();
    this.source = null;
  }

  open() {
    clearTimeout(this.retryTimer);
    this.source?.close();
    const source = new EventSource(this.url);
    this.source = source;
    this.heardAt = performance.now();
    source.addEventListener("picture", (event) => this.hear(() => this.onPicture(JSON.parse(event.data))));
    source.addEventListener("change", (event) =>
      this.hear(() => {
        // A gap: only a whole picture helps.
        if (!this.onChange(JSON.parse(event.data))) this.openLater(RETRY_MS);
      }),
    );
    source.addEventListener("error", () => this.broken(source));
  }

  /** @param {() => void} take */
  hear(take) {
    this.heardAt = performance.now();
    this.retryMs = RETRY_MS;
    take();
    this.become("live");
  }

  /** @param {EventSource} source */
  broken(source) {
    if (source !== this.source) return;
    this.become("away");
    this.onBroken?.();
    if (source !== this.source) return;
    // The browser reconnects by itself, except after an error status (503: too many watchers).
    if (source.readyState === EventSource.CLOSED) this.openLater(this.retryMs);
    this.retryMs = Math.min(this.retryMs * 2, RETRY_MAX_MS);
  }

  /** @param {number} ms */
  openLater(ms) {
    clearTimeout(this.retryTimer);
    this.source?.close();
    this.retryTimer = setTimeout(() => this.open(), ms);
  }

  look() {
    const silentMs = performance.now() - this.heardAt;
    if (silentMs > SILENT_MS && this.source?.readyState === EventSource.OPEN) {
      // Nothing new is no fault: only who does not answer then is away.
      this.become("connecting");
      this.open();
    } else if (silentMs > QUIET_MS && this.state === "live") {
      this.become("quiet");
    } else if (silentMs > QUIET_MS && this.state === "connecting") {
      this.become("away");
    }
  }

  /** @param {Connection} state */
  become(state) {
    if (state === this.state) return;
    this.state = state;
    this.onState(state);
  }
}
