// One direction of the conversation: a session at /ws/session that outlives its socket.
import { Connection } from "./connection.js";
import { Heartbeat } from "./heartbeat.js";
import { Outcomes } from "./outcomes.js";
import { Outgoing } from "./outgoing.js";
import { Sender } from "./sender.js";

/** @import {AsrPartial, ErrorMessage, Outcome, Playback, SessionInit, SessionInitAck} from "../shared/types" */
/** @import {SessionMessage, SessionSignal, TranslationResult, UiEvent} from "../shared/types" */

const FIRST_RETRY_MS = 200;
const LAST_RETRY_MS = 4_000;
const OVERLOADED_PAUSE_MS = 1_000;
const CLOSE_WITHIN_MS = 30_000;
const SETTLED_AFTER_MS = 3_000;
const UNTOLD_AFTER_MS = 10_000;
// What no second try will mend.
const REFUSED = new Set(["INVALID_MESSAGE", "UNSUPPORTED_FEATURE", "INVALID_PAIRING_CODE"]);
// Either audio was not taken, or the session is held elsewhere by now. To come back with the token tells which chunk is
// missing, so nothing is lost by it.
const COME_BACK = new Set(["NODE_OVERLOADED", "INVALID_SESSION", "SESSION_CLOSED"]);

/** @typedef {"connecting" | "open" | "away" | "paused"} LinkState */
/**
 * @typedef {object} LinkEvents
 * @property {(state: LinkState) => void} state
 * @property {(message: Outcome) => void} outcome
 * @property {(message: AsrPartial) => void} partial
 * @property {(message: UiEvent) => void} trouble
 * @property {(count: number) => void} lost this many finished utterances will not be answered
 * @property {() => void} settled all that was said has its outcome
 * @property {(text: string) => void} refused
 */

/** @param {number} ms */
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

export class Link {
  #url;
  #protocols;
  /** @type {SessionInit} */
  #init;
  #on;
  /** @type {WebSocket | null} */
  #socket = null;
  #outgoing = new Outgoing();
  #sender;
  #sessionId = "";
  #outcomes = new Outcomes();
  #heartbeat;
  #isClosing = false;
  #isOver = false;
  /** @type {(nothing?: unknown) => void} */
  #retryNow = () => {};
  #hangUp = () => {};
  timesResumed = 0;

  /**
   * @param {URL} url
   * @param {string} source
   * @param {string} target
   * @param {LinkEvents} on
   * @param {() => Promise<string[]>} [protocols] what to show at the handshake; throws when there is nothing to show
   */
  constructor(url, source, target, on, protocols) {
    this.#url = url;
    this.#protocols = protocols;
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
    this.#sender = new Sender(this.#outgoing, {
      resumed: () => this.#on.state("open"),
      allSent: () => this.#allSent(),
    });
    this.#heartbeat = new Heartbeat({
      look: () => this.#look(),
      ask: () => this.#post({ type: "client_heartbeat", session_id: this.#sessionId, timestamp: Date.now() }),
      dead: () => this.#hangUp(),
    });
    this.#stayConnected();
  }

  get isOpen() {
    return this.#socket !== null && this.#sessionId !== "";
  }

  /**
   * Takes a stretch of speech; false if the buffer is full.
   * @param {Int16Array} audio
   * @param {boolean} isFinal
   */
  send(audio, isFinal) {
    if (this.#outgoing.isFull && !isFinal) return false;
    this.#outgoing.add(audio, isFinal);
    this.#sender.pump();
    return true;
  }

  /**
   * @param {Playback["type"]} type
   * @param {Pick<TranslationResult, "trace_id" | "group_id">} result
   */
  playback(type, { trace_id, group_id }) {
    const at = type === "tts_started" ? { ts_start_ms: Date.now() } : { ts_end_ms: Date.now() };
    this.#post({ type, session_id: this.#sessionId, trace_id, group_id, ...at });
  }

  /** The network is back, or the page is visible again. */
  hurry() {
    this.#retryNow();
  }

  /** Nothing more will be said; what was said is still answered. */
  close() {
    if (this.#isClosing) return;
    this.#isClosing = true;
    this.#sender.pump();
    if (this.#outgoing.isAnswered) this.#end();
    else setTimeout(() => this.#end(), CLOSE_WITHIN_MS);
  }

  async #stayConnected() {
    let retryMs = FIRST_RETRY_MS;
    while (!this.#isOver) {
      this.#on.state(this.#init.resume_token ? "away" : "connecting");
      if (await this.#meet()) retryMs = FIRST_RETRY_MS;
      if (this.#isOver) break;
      this.#on.state("away");
      // Full jitter, so that many pages do not come back all at once.
      await Promise.race([pause(Math.random() * retryMs), new Promise((go) => (this.#retryNow = go))]);
      retryMs = Math.min(retryMs * 2, LAST_RETRY_MS);
    }
  }

  async #meet() {
    const protocols = this.#protocols ? await this.#protocols().catch(() => null) : [];
    // The person may have chosen another language meanwhile.
    return protocols !== null && !this.#isOver && this.#converse(protocols);
  }

  /** @param {string[]} protocols */
  #converse(protocols) {
    const connection = new Connection(this.#url, {
      greet: () => ({ ...this.#init, ...this.#whatIHave() }),
      sign: () => this.#heartbeat.sign(),
      opened: (socket, ack) => this.#acknowledged(socket, ack),
      heard: (message) => this.#heard(message),
      refused: (error) => this.#notOpened(error),
      closed: (socket) => this.#disconnected(socket),
    }, protocols);
    this.#hangUp = () => connection.hangUp();
    return connection.ended;
  }

  /** @param {WebSocket} socket */
  #disconnected(socket) {
    if (this.#socket !== socket) return;
    this.#socket = null;
    this.#sender.use(null);
  }

  #whatIHave() {
    const { last } = this.#outcomes;
    return last === null || last < 0 ? {} : { last_utterance_index: last };
  }

  /**
   * @param {WebSocket} socket
   * @param {SessionInitAck} ack
   */
  #acknowledged(socket, ack) {
    const isSecond = Boolean(this.#init.resume_token);
    this.#socket = socket;
    this.#sessionId = ack.session_id;
    this.#sender.use({ socket, sessionId: ack.session_id, isBinary: ack.use_binary_frame });
    this.#init.resume_token = ack.resume_token;
    if (ack.resumed) this.#resumed(ack);
    else if (isSecond) this.#restarted();
    this.#on.state("open");
    this.#sender.pump();
  }

  /** @param {SessionInitAck} ack */
  #resumed(ack) {
    this.timesResumed += 1;
    this.#outgoing.resumed(ack.next_seq ?? 0);
    this.#outcomes.resumed(ack.next_utterance_index ?? 0);
  }

  #restarted() {
    this.#outcomes = new Outcomes();
    this.#on.lost(this.#outgoing.restarted());
  }

  /** @param {ErrorMessage} error */
  #notOpened({ code, message }) {
    if (!REFUSED.has(code)) return;
    this.#end();
    this.#on.refused(String(message));
  }

  /** @param {SessionMessage} message */
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

  /** @param {ErrorMessage} error */
  #complained({ code }) {
    if (code === "NODE_OVERLOADED") this.#pauseFor(OVERLOADED_PAUSE_MS);
    if (COME_BACK.has(code)) this.#hangUp();
  }

  /** @param {UiEvent} message */
  #told(message) {
    // Troubles are always told, the other steps perhaps not; see `#isSettled`.
    if (message.status === "error") {
      this.#on.trouble(message);
      return;
    }
    this.#outcomes.announce(message.utterance_index);
    if (message.event === "INPUT_ENDED") this.#sender.inputEnded();
  }

  /** @param {number} ms */
  #pauseFor(ms) {
    this.#on.state("paused");
    this.#sender.pauseFor(ms);
  }

  #allSent() {
    if (this.#isClosing) this.#post({ type: "session_close", session_id: this.#sessionId, reason: "done" });
  }

  /** The session has heard everything, and all that it made of it has its outcome. */
  get #isSettled() {
    if (this.#heartbeat.isAwaited || this.#sender.isPaused || !this.#outgoing.isIdle) return false;
    const { idleMs } = this.#sender;
    // Silence alone makes no utterance, and of one that was heard something would have been told by now.
    if (this.#outcomes.isEmpty) return idleMs > UNTOLD_AFTER_MS;
    // If the scheduler does not announce utterances, it is unknown whether one is still to come.
    return this.#outcomes.isComplete && idleMs > SETTLED_AFTER_MS;
  }

  /** Whether an answer is expected; null when there is no connection. */
  #look() {
    if (!this.isOpen) return null;
    if (this.#isSettled) {
      this.#outgoing.settled();
      this.#on.settled();
    }
    return !this.#outgoing.isAnswered;
  }

  /**
   * Into a broken connection nothing is sent; what matters is sent again after it came back.
   * @param {SessionSignal} message
   */
  #post(message) {
    if (this.isOpen && this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message));
  }

  #end() {
    this.#isOver = true;
    this.#heartbeat.stop();
    this.#sender.close();
    this.#hangUp();
    this.#retryNow();
  }
}
