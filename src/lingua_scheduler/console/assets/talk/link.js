// One direction of the conversation: a session at /ws/session that outlives its socket.

import { binaryChunk, textChunk } from "./frames.js";
import { Outcomes } from "./outcomes.js";
import { Outgoing } from "./outgoing.js";

const ACK_WITHIN_MS = 10_000;
const FIRST_RETRY_MS = 200;
const LAST_RETRY_MS = 4_000;
const MAX_PAUSE_MS = 10_000;
const MAX_BUFFERED_BYTES = 1 << 20;
// A connection may die without a word. While somebody waits for it, that is found out soon.
const BEAT_MS = 2_000;
const ANSWER_WITHIN_MS = 5_000;
const IDLE_BEATS = 10;
const CLOSE_WITHIN_MS = 30_000;
// What follows a final too soon is taken for a part of it. After a break all comes at once, so the next utterance waits
// until the one before it has ended, or for so long where nobody tells.
const APART_MS = 1_000;
const SETTLED_AFTER_MS = 3_000;
const UNTOLD_AFTER_MS = 10_000;
// What no second try will mend.
const REFUSED = new Set(["INVALID_MESSAGE", "UNSUPPORTED_FEATURE", "INVALID_PAIRING_CODE"]);

const pause = (ms) => new Promise((done) => setTimeout(done, ms));

/** `on` hears: state(word), outcome(message), partial(message), trouble(message), lost(count), settled(),
 * refused(text). */
export class Link {
  #url;
  #init;
  #on;
  #socket = null;
  #outgoing = new Outgoing();
  #sessionId = "";
  #binary = false;
  #outcomes = new Outcomes();
  // The last utterance that the session has spoken of.
  #lastAnnounced = null;
  #apartUntil = 0;
  #lastSentAt = 0;
  #pausedUntil = 0;
  #pumpTimer = 0;
  #beatTimer = 0;
  #beats = 0;
  #silentSince = 0;
  #isClosing = false;
  #isOver = false;
  #retryNow = () => {};
  timesResumed = 0;

  constructor(url, source, target, on) {
    this.#url = url;
    this.#on = on;
    this.#init = {
      type: "session_init",
      client_version: "lingua-talk-1",
      platform: "web",
      src_lang: source,
      tgt_lang: target,
      enable_streaming_asr: true,
      partial_update_interval_ms: 500,
      use_binary_frame: true,
    };
    this.#beatTimer = setInterval(() => this.#beat(), BEAT_MS);
    this.#stayConnected();
  }

  get isOpen() {
    return this.#socket !== null && this.#sessionId !== "";
  }

  get isPaused() {
    return this.#pausedUntil > performance.now();
  }

  /** A stretch of speech; false when so much waits already that it was not taken. */
  send(audio, isFinal) {
    if (this.#outgoing.isFull && !isFinal) return false;
    this.#outgoing.add(audio, isFinal);
    this.#pump();
    return true;
  }

  playback(type, { trace_id, group_id }) {
    const at = type === "tts_started" ? "ts_start_ms" : "ts_end_ms";
    this.#post({ type, session_id: this.#sessionId, trace_id, group_id, [at]: Date.now() });
  }

  /** The network is back, or somebody looks at the page again. */
  hurry() {
    this.#retryNow();
  }

  /** Nothing more will be said; what was said is still answered. */
  close() {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#pump();
    if (this.#outgoing.isAnswered) this.#end();
    else setTimeout(() => this.#end(), CLOSE_WITHIN_MS);
  }

  async #stayConnected() {
    let retryMs = FIRST_RETRY_MS;
    while (!this.#isOver) {
      this.#on.state(this.#init.resume_token ? "away" : "connecting");
      if (await this.#converse()) retryMs = FIRST_RETRY_MS;
      if (this.#isOver) break;
      this.#on.state("away");
      // Full jitter, so that many pages do not come back all at once.
      await Promise.race([pause(Math.random() * retryMs), new Promise((go) => (this.#retryNow = go))]);
      retryMs = Math.min(retryMs * 2, LAST_RETRY_MS);
    }
  }

  /** One connection, from its beginning to its end; whether the session was open on it. */
  #converse() {
    return new Promise((ended) => {
      const socket = new WebSocket(this.#url);
      let wasOpen = false;
      const end = () => {
        clearTimeout(patience);
        if (this.#socket === socket) this.#socket = null;
        socket.onclose = socket.onmessage = socket.onopen = null;
        socket.close();
        ended(wasOpen);
      };
      const patience = setTimeout(end, ACK_WITHIN_MS);
      this.#hangUp = end;
      socket.onopen = () => socket.send(JSON.stringify({ ...this.#init, ...this.#whatIHave() }));
      socket.onclose = end;
      socket.onmessage = ({ data }) => {
        this.#silentSince = 0;
        const message = readable(data);
        if (!message) return;
        if (message.type === "session_init_ack") {
          clearTimeout(patience);
          wasOpen = true;
          this.#acknowledged(socket, message);
        } else if (wasOpen) {
          this.#heard(message);
        } else if (message.type === "error") {
          this.#notOpened(message);
          end();
        }
      };
    });
  }

  #hangUp = () => {};

  #whatIHave() {
    const { last } = this.#outcomes;
    return last === null || last < 0 ? {} : { last_utterance_index: last };
  }

  #acknowledged(socket, ack) {
    const isSecond = Boolean(this.#init.resume_token);
    this.#socket = socket;
    this.#sessionId = ack.session_id;
    this.#binary = ack.use_binary_frame;
    this.#init.resume_token = ack.resume_token;
    if (ack.resumed) {
      this.timesResumed += 1;
      this.#outgoing.resumed(ack.next_seq ?? 0);
      if (this.#lastAnnounced !== null) this.#lastAnnounced = (ack.next_utterance_index ?? 0) - 1;
    } else if (isSecond) {
      this.#outcomes = new Outcomes();
      this.#lastAnnounced = null;
      this.#on.lost(this.#outgoing.restarted());
    }
    this.#on.state("open");
    this.#pump();
  }

  #notOpened({ code, message }) {
    if (!REFUSED.has(code)) return;
    this.#end();
    this.#on.refused(String(message));
  }

  #heard(message) {
    switch (message.type) {
      case "translation_result":
      case "missing_result":
        if (!this.#outcomes.add(message.utterance_index)) return;
        this.#outgoing.answered();
        this.#on.outcome(message);
        break;
      case "asr_partial":
        this.#on.partial(message);
        break;
      case "ui_event":
        this.#told(message);
        break;
      case "backpressure":
        this.#pauseFor(Number(message.resume_after_ms) || 0);
        break;
      case "session_close_ack":
        this.#on.settled();
        this.#end();
        break;
      case "error":
        this.#complained(message);
        break;
    }
  }

  #told(message) {
    // Troubles are always told, the other steps perhaps not; see `#isSettled`.
    if (message.status === "error") return this.#on.trouble(message);
    this.#outcomes.expect(message.utterance_index);
    this.#lastAnnounced = Math.max(this.#lastAnnounced ?? 0, message.utterance_index);
    if (message.event !== "INPUT_ENDED" || !this.#apartUntil) return;
    this.#apartUntil = 0;
    this.#pump();
  }

  #complained({ code }) {
    // Either audio was not taken, or the session is held elsewhere by now. To come back with the token tells which
    // chunk is missing, so nothing is lost by it.
    if (code === "NODE_OVERLOADED") this.#pauseFor(1_000);
    if (code === "NODE_OVERLOADED" || code === "INVALID_SESSION" || code === "SESSION_CLOSED") this.#hangUp();
  }

  #pauseFor(ms) {
    this.#pausedUntil = performance.now() + Math.min(ms, MAX_PAUSE_MS);
    this.#on.state("paused");
    this.#pumpLater(Math.min(ms, MAX_PAUSE_MS) + 10);
  }

  #pumpLater(ms) {
    clearTimeout(this.#pumpTimer);
    this.#pumpTimer = setTimeout(() => {
      if (this.isOpen) this.#on.state("open");
      this.#pump();
    }, ms);
  }

  #pump() {
    if (!this.isOpen || this.isPaused) return;
    while (this.#socket.bufferedAmount < MAX_BUFFERED_BYTES) {
      const now = performance.now();
      if (this.#outgoing.hasUnsent && now < this.#apartUntil) return this.#pumpLater(this.#apartUntil - now);
      const chunk = this.#outgoing.take();
      if (!chunk) return this.#allSent();
      this.#apartUntil = chunk.isFinal ? now + APART_MS : 0;
      this.#lastSentAt = now;
      this.#socket.send(this.#binary ? binaryChunk(this.#sessionId, chunk) : textChunk(this.#sessionId, chunk));
    }
    this.#pumpLater(100);
  }

  #allSent() {
    if (this.#isClosing) this.#post({ type: "session_close", session_id: this.#sessionId, reason: "done" });
  }

  /** The session has heard everything, and all that it made of it has its outcome. */
  get #isSettled() {
    if (this.#silentSince || this.isPaused || !this.#outgoing.isIdle) return false;
    const idleMs = performance.now() - this.#lastSentAt;
    // Silence alone makes no utterance, and of one that was heard something would have been told by now.
    if (this.#outcomes.next === null) return idleMs > UNTOLD_AFTER_MS;
    // Where nobody tells which utterances there are, nobody knows whether one is still to come.
    const isTold = this.#lastAnnounced !== null && this.#lastAnnounced < this.#outcomes.next;
    return isTold && idleMs > SETTLED_AFTER_MS;
  }

  /** Often while somebody waits, else every twenty seconds. */
  #beat() {
    this.#beats += 1;
    if (!this.isOpen) return;
    if (this.#isSettled) {
      this.#outgoing.settled();
      this.#on.settled();
    }
    const now = performance.now();
    if (this.#silentSince && now - this.#silentSince > ANSWER_WITHIN_MS) {
      this.#silentSince = 0;
      this.#hangUp();
    } else if (!this.#outgoing.isAnswered || this.#beats % IDLE_BEATS === 0) {
      this.#silentSince ||= now;
      this.#post({ type: "client_heartbeat", session_id: this.#sessionId, timestamp: Date.now() });
    }
  }

  /** Into a broken connection nothing is sent; what matters is sent again after it came back. */
  #post(message) {
    if (this.isOpen && this.#socket.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #end() {
    this.#isOver = true;
    clearInterval(this.#beatTimer);
    clearTimeout(this.#pumpTimer);
    this.#hangUp();
    this.#retryNow();
  }
}

function readable(data) {
  try {
    return typeof data === "string" ? JSON.parse(data) : null;
  } catch {
    return null;
  }
}
