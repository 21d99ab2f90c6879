// What was said, in order, and how each half of the page shows it. Everything from outside is text, never markup.

// Older sentences leave the page, and older speech leaves the memory.
const MAX_SHOWN = 200;
const MAX_CLIPS = 30;
const FORGET_AFTER_MS = 90_000;

/** @import {Direction} from "./directions.js" */
/** @import {Side} from "./page.js" */
/** @import {Clip} from "../shared/client.js" */
/** @import {Word} from "./words.js" */

/** @typedef {"listening" | "pending" | "partial" | "done" | "missing"} SentenceState */
/**
 * @typedef {object} Sentence
 * @property {number} id
 * @property {Direction} direction
 * @property {Side} side
 * @property {string} source
 * @property {string} target
 * @property {number | null} index
 * @property {SentenceState} state
 * @property {string} heard
 * @property {string} translated
 * @property {Word | ""} reason
 * @property {Clip | null} clip
 * @property {boolean} isPlaying
 * @property {boolean} wasSent
 * @property {number} at
 */

/** States of a sentence: listening → pending → partial → done, or missing with a `reason`. */
export class Conversation {
  /** @type {Sentence[]} */
  #sentences = [];
  #onChange;
  #count = 0;

  /** @param {(changed: Sentence | null) => void} onChange null: anything may have changed */
  constructor(onChange) {
    this.#onChange = onChange;
    setInterval(() => this.#giveUp(), 5_000);
  }

  get all() {
    return this.#sentences;
  }

  /**
   * @param {Direction} direction who talks to whom
   * @param {Side} side
   */
  begin(direction, side) {
    const { source, target } = direction;
    /** @type {Sentence} */
    const sentence = {
      ...{ id: ++this.#count, direction, side, source, target, index: null, state: "listening" },
      ...{ heard: "", translated: "", reason: "", clip: null, isPlaying: false, wasSent: false, at: Date.now() },
    };
    this.#sentences.push(sentence);
    if (this.#sentences.length > MAX_SHOWN) this.#sentences.shift();
    this.#onChange(sentence);
    return sentence;
  }

  /**
   * @param {Sentence} sentence
   * @param {Partial<Sentence>} changes
   */
  change(sentence, changes) {
    Object.assign(sentence, changes, { at: Date.now() });
    if (changes.clip) this.#dropOldClips();
    this.#onChange(sentence);
  }

  /** @param {Sentence} sentence */
  remove(sentence) {
    this.#sentences = this.#sentences.filter((one) => one !== sentence);
    this.#onChange(sentence);
  }

  clear() {
    this.#sentences = this.#sentences.filter(({ state }) => state === "listening");
    this.#onChange(null);
  }

  /**
   * The sentence with this number of a direction: the oldest without a number takes it.
   * @param {Direction} direction
   * @param {number} index
   */
  numbered(direction, index) {
    const ours = this.#sentences.filter((one) => one.direction === direction);
    const waiting = ours.find((one) => one.index === null && isWaiting(one));
    const found = ours.find((one) => one.index === index) ?? waiting ?? this.begin(direction, direction.side);
    found.index = index;
    return found;
  }

  /**
   * Its session is gone: numbers begin anew, and the oldest `lost` of those that wait will not be answered.
   * @param {Direction} direction
   * @param {number} lost
   */
  restart(direction, lost) {
    const ours = this.#sentences.filter((one) => one.direction === direction);
    const waiting = ours.filter(isWaiting);
    ours.forEach((one) => (one.index = waiting.includes(one) ? null : -1));
    waiting.slice(0, lost).forEach((one) => this.change(one, { state: "missing", reason: "lost" }));
  }

  /**
   * Every utterance has its outcome. An entry that still waits was joined to the sentence before it, whose outcome came
   * later; or it was silence, of which the scheduler makes no utterance.
   * @param {Direction} direction
   */
  settle(direction) {
    const ours = this.#sentences.filter((one) => one.direction === direction);
    const left = ours.filter(({ state }) => state === "pending" || state === "partial");
    const silent = left.filter((one) => !one.heard && !ours.some(({ id, at }) => id < one.id && at >= one.at));
    for (const one of left) {
      if (silent.includes(one)) this.change(one, { state: "missing", reason: "missing_no_text" });
      else this.remove(one);
    }
  }

  #giveUp() {
    const since = Date.now() - FORGET_AFTER_MS;
    this.#sentences
      .filter((one) => one.at < since && (one.state === "pending" || one.state === "partial"))
      .forEach((one) => this.change(one, { state: "missing", reason: "missing_late" }));
  }

  #dropOldClips() {
    const withClip = this.#sentences.filter(({ clip }) => clip);
    withClip.slice(0, -MAX_CLIPS).forEach((one) => (one.clip = null));
  }
}

/** @param {Sentence} sentence */
function isWaiting({ state }) {
  return state === "listening" || state === "pending" || state === "partial";
}
