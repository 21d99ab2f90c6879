// One press of a talk button, from the microphone to the session. Only one person talks at a time.

import { Gate, NoMicrophone } from "../shared/client.js";
import { micWord } from "../shared/reasons.js";

/** @import {Conversation, Sentence} from "./conversation.js" */
/** @import {Direction} from "./directions.js" */
/** @import {Frame} from "../shared/client.js" */
/** @import {Phase} from "./half.js" */
/** @import {Side} from "./page.js" */
/** @import {Sound} from "../shared/sound.js" */
/** @import {Word} from "./words.js" */

// A shorter press is a tap, a longer one a hold.
const DECIDED_AFTER_MS = 350;
// After this much silence the person has probably forgotten the microphone.
const FORGOTTEN_AFTER_MS = 30_000;
const MAX_TALK_MS = 300_000;

/**
 * @typedef {object} Press
 * @property {Side} side
 * @property {Direction} direction
 * @property {boolean} isLatched
 * @property {Gate} gate
 * @property {Frame[]} undecided
 * @property {Sentence | null} sentence
 * @property {number} startedAt 0 until the microphone is on
 * @property {boolean} isLost the microphone was unplugged
 */
/**
 * @typedef {object} TalkerEvents
 * @property {(side: Side, phase: Phase) => void} phase
 * @property {(side: Side, level: number) => void} level 0…1
 * @property {(side: Side, key: Word | null) => void} notice
 */

export class Talker {
  #sound;
  #conversation;
  #on;
  /** @type {Press | null} */
  #press = null;

  /**
   * @param {Sound} sound
   * @param {Conversation} conversation
   * @param {TalkerEvents} on
   */
  constructor(sound, conversation, on) {
    this.#sound = sound;
    this.#conversation = conversation;
    this.#on = on;
  }

  get side() {
    return this.#press?.side ?? null;
  }

  /**
   * @param {Side} side
   * @param {Direction} direction
   */
  async start(side, direction) {
    this.stop();
    /** @type {Press} */
    const press = { side, direction, isLatched: false, gate: new Gate(), undecided: [], sentence: null, startedAt: 0, isLost: false };
    this.#press = press;
    this.#on.notice(side, null);
    this.#on.phase(side, "opening");
    this.#sound.player?.hold();
    try {
      const isAwake = await this.#open();
      if (isAwake && this.#press === press) this.#listen(press);
      else this.#ready(press);
    } catch (error) {
      this.#failed(press, micWord(error));
    }
  }

  /** Whether there is sound now. */
  async #open() {
    const isAwake = await this.#sound.wake();
    if (!this.#sound.microphone) throw new NoMicrophone("INSECURE", "this page gets no microphone");
    await this.#sound.microphone.open();
    // Many browsers let a page that listens make a sound.
    return isAwake || this.#sound.wake();
  }

  /** @param {Press} press */
  #listen(press) {
    press.startedAt = performance.now();
    press.sentence = this.#conversation.begin(press.direction, press.side);
    this.#sound.player?.hold();
    const lost = (/** @type {NoMicrophone} */ error) => {
      press.isLost = true;
      this.#failed(press, micWord(error));
    };
    this.#sound.microphone?.start((frame) => this.#took(press, frame), lost);
    this.#on.phase(press.side, press.isLatched ? "listening_tap" : "listening");
    navigator.vibrate?.(15);
  }

  /**
   * Let go before the microphone was there: the browser may have asked, and covered the button.
   * @param {Press} press
   */
  #ready(press) {
    if (this.#press === press) this.stop();
    if (!this.#press) this.#sound.microphone?.stop();
    this.#on.notice(press.side, "mic_ready");
  }

  /** The button was released, but the person wants to continue. */
  latch() {
    if (!this.#press) return;
    this.#press.isLatched = true;
    if (this.#press.sentence) this.#on.phase(this.#press.side, "listening_tap");
  }

  /**
   * The sentence ends here; what the microphone has taken so far is still sent.
   * @param {Word | null} [notice]
   */
  stop(notice = null) {
    const press = this.#press;
    if (!press) return;
    this.#press = null;
    if (press.startedAt) this.#sound.microphone?.stop();
    this.#sound.player?.release();
    this.#on.phase(press.side, "idle");
    this.#on.level(press.side, 0);
    if (notice) this.#on.notice(press.side, notice);
  }

  /**
   * @param {Press} press
   * @param {Word} notice
   */
  #failed(press, notice) {
    if (this.#press === press) this.stop();
    this.#on.notice(press.side, notice);
  }

  /**
   * @param {Press} press
   * @param {Frame} frame
   */
  #took(press, frame) {
    const age = performance.now() - press.startedAt;
    if (this.#press === press) this.#on.level(press.side, frame.level);
    press.undecided.push(frame);
    if (!press.isLatched && !frame.isLast && age < DECIDED_AFTER_MS) return;
    for (const each of press.undecided.splice(0)) {
      const passed = press.isLatched ? press.gate.pass(each) : [{ samples: each.samples, isFinal: each.isLast }];
      for (const { samples, isFinal } of passed) this.#send(press, samples, isFinal);
    }
    if (frame.isLast) this.#ended(press);
    else if (this.#press === press) this.#limit(press, age);
  }

  /**
   * @param {Press} press
   * @param {number} ageMs
   */
  #limit(press, ageMs) {
    if (press.gate.quietMs >= FORGOTTEN_AFTER_MS) this.stop("forgotten");
    else if (ageMs > MAX_TALK_MS) this.stop("too_long");
  }

  /**
   * @param {Press} press
   * @param {Int16Array} samples
   * @param {boolean} isFinal
   */
  #send(press, samples, isFinal) {
    // A long speech is several sentences: the next begins when the one before has its translation.
    if (!press.sentence || press.sentence.state === "done" || press.sentence.state === "missing") {
      press.sentence = this.#conversation.begin(press.direction, press.side);
    }
    press.sentence.wasSent = true;
    const wasTaken = press.direction.session.trySend(samples, isFinal);
    // Why a session has ended is told already.
    if (!wasTaken && this.#press === press) this.stop(press.direction.session.state === "ended" ? null : "too_long");
    if (!isFinal) return;
    this.#conversation.change(press.sentence, { state: "pending" });
    press.sentence = null;
  }

  /** @param {Press} press */
  #ended(press) {
    if (press.sentence && !press.sentence.wasSent) {
      this.#conversation.remove(press.sentence);
      // Otherwise the notice says that it was stopped after a long silence, or unplugged.
      const isTold = press.gate.quietMs >= FORGOTTEN_AFTER_MS || press.isLost;
      if (!isTold && !this.#press) this.#on.notice(press.side, "missing_no_text");
    } else if (press.sentence?.state === "listening") this.#conversation.change(press.sentence, { state: "pending" });
  }
}
