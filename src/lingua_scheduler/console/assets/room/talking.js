// From the microphone to the room: while the button is held, or hands-free sentence by sentence.
import { Gate, NoMicrophone } from "../shared/client.js";
import { micWord } from "../shared/reasons.js";

/** @import {Frame} from "../shared/client.js" */
/** @import {Sound} from "../shared/sound.js" */
/** @import {Word} from "./words.js" */

// A shorter press is a tap, a longer one a hold.
const DECIDED_AFTER_MS = 350;
// After this much silence the person has probably forgotten the microphone.
const FORGOTTEN_AFTER_MS = 30_000;
const MAX_HOLD_MS = 300_000;

/** @typedef {"off" | "opening" | "held" | "latched"} Phase */
/** @typedef {{isLatched: boolean, isEndless: boolean, gate: Gate, undecided: Frame[], startedAt: number}} Press */
/**
 * @typedef {object} TalkingEvents
 * @property {(samples: Int16Array, isFinal: boolean) => boolean} send false if it cannot be taken
 * @property {(phase: Phase) => void} phase
 * @property {(level: number, isSpeech: boolean) => void} level
 * @property {(word: Word | null) => void} notice
 */

export class Talking {
  #sound;
  #on;
  /** @type {Press | null} */
  #press = null;

  /**
   * @param {Sound} sound
   * @param {TalkingEvents} on
   */
  constructor(sound, on) {
    this.#sound = sound;
    this.#on = on;
  }

  get isOn() {
    return this.#press !== null;
  }

  /** @param {boolean} isEndless hands-free: it stays on, however long nothing is said */
  async start(isEndless) {
    this.stop();
    /** @type {Press} */
    const press = { isLatched: isEndless, isEndless, gate: new Gate(), undecided: [], startedAt: 0 };
    this.#press = press;
    this.#on.notice(null);
    this.#on.phase("opening");
    try {
      const isAwake = await this.#open();
      if (this.#press !== press) this.#released();
      else if (isAwake) this.#listen(press);
      else this.stop("mic_ready");
    } catch (error) {
      if (this.#press === press) this.stop(micWord(error));
    }
  }

  /** The button was released, but the person wants to continue. */
  latch() {
    if (!this.#press) return;
    this.#press.isLatched = true;
    if (this.#press.startedAt) this.#on.phase("latched");
  }

  /** @param {Word | null} [notice] */
  stop(notice = null) {
    const press = this.#press;
    if (!press) return;
    this.#press = null;
    if (press.startedAt) this.#sound.microphone?.stop();
    this.#sound.player?.release();
    this.#on.phase("off");
    this.#on.level(0, false);
    if (notice) this.#on.notice(notice);
  }

  /** Whether there is sound now. */
  async #open() {
    const isAwake = await this.#sound.wake();
    if (!this.#sound.microphone) throw new NoMicrophone("INSECURE", "this page gets no microphone");
    await this.#sound.microphone.open();
    // Many browsers let a page that listens make a sound.
    return isAwake || this.#sound.wake();
  }

  /** The button was let go before the microphone was there: the browser may have asked, and covered it. */
  #released() {
    if (!this.#press) this.#sound.microphone?.stop();
    this.#on.notice("mic_ready");
  }

  /** @param {Press} press */
  #listen(press) {
    press.startedAt = performance.now();
    // Hands-free people wear a headset, or listen while they talk.
    if (!press.isEndless) this.#sound.player?.hold();
    const lost = (/** @type {NoMicrophone} */ error) => this.#press === press && this.stop(micWord(error));
    this.#sound.microphone?.start((frame) => this.#took(press, frame), lost);
    this.#on.phase(press.isLatched ? "latched" : "held");
    navigator.vibrate?.(15);
  }

  /**
   * @param {Press} press
   * @param {Frame} frame
   */
  #took(press, frame) {
    const age = performance.now() - press.startedAt;
    press.undecided.push(frame);
    if (!press.isLatched && !frame.isLast && age < DECIDED_AFTER_MS) return;
    for (const each of press.undecided.splice(0)) {
      const passed = press.isLatched ? press.gate.pass(each) : [{ samples: each.samples, isFinal: each.isLast }];
      for (const { samples, isFinal } of passed) this.#send(press, samples, isFinal);
    }
    if (this.#press !== press) return;
    this.#on.level(frame.level, !press.isLatched || press.gate.isSpeech);
    this.#limit(press, age);
  }

  /**
   * @param {Press} press
   * @param {number} ageMs
   */
  #limit({ isLatched, isEndless, gate }, ageMs) {
    if (isEndless) return;
    if (isLatched && gate.quietMs >= FORGOTTEN_AFTER_MS) this.stop("forgotten");
    else if (!isLatched && ageMs > MAX_HOLD_MS) this.stop("too_long");
  }

  /**
   * @param {Press} press
   * @param {Int16Array} samples
   * @param {boolean} isFinal
   */
  #send(press, samples, isFinal) {
    if (!this.#on.send(samples, isFinal) && this.#press === press) this.stop("too_long");
  }
}
