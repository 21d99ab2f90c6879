// What comes back: texts into the conversation, speech to the loudspeaker in the same order.

import { missingWord } from "../shared/reasons.js";

/** @import {Clip, Gap, Partial as PartialText, Progress, Result, Translation} from "../shared/client.js" */
/** @import {Conversation, Sentence} from "./conversation.js" */
/** @import {Direction} from "./directions.js" */
/** @import {Sound} from "../shared/sound.js" */
/** @import {Word} from "./words.js" */

const MAX_ANNOUNCED = 20;

export class Results {
  #conversation;
  #sound;
  #announcer;
  /** @type {WeakMap<Direction, string>} */
  #troubles = new WeakMap();

  /**
   * `announcer` is read aloud by screen readers.
   * @param {Conversation} conversation
   * @param {Sound} sound
   * @param {HTMLElement} announcer
   */
  constructor(conversation, sound, announcer) {
    this.#conversation = conversation;
    this.#sound = sound;
    this.#announcer = announcer;
  }

  /**
   * @param {Direction} direction
   * @param {PartialText} partial
   */
  partial(direction, { index, text }) {
    const sentence = this.#conversation.numbered(direction, index);
    if (sentence.state === "done" || sentence.state === "missing") return;
    const state = sentence.state === "listening" ? "listening" : "partial";
    this.#conversation.change(sentence, { heard: text, state });
  }

  /**
   * Why there will be no translation; the outcome follows.
   * @param {Direction} direction
   * @param {Progress} step
   */
  trouble(direction, { code }) {
    this.#troubles.set(direction, code);
  }

  /**
   * @param {Direction} direction
   * @param {Result} result
   */
  outcome(direction, result) {
    const sentence = this.#conversation.numbered(direction, result.index);
    if (result.kind === "gap") {
      this.#conversation.change(sentence, { state: "missing", reason: this.#reason(direction, result) });
      return;
    }
    const { text: heard, translated } = result;
    this.#conversation.change(sentence, { heard, translated, state: "done" });
    this.#announce(sentence);
    this.#speak(direction, sentence, result);
  }

  /** @param {number} id */
  replay(id) {
    const clip = this.#conversation.all.find((one) => one.id === id)?.clip;
    if (clip) this.#sound.wake().then(() => this.#sound.player?.replay(clip));
  }

  /**
   * Older schedulers tell the code only in an event before.
   * @param {Direction} direction
   * @param {Gap} gap
   * @returns {Word}
   */
  #reason(direction, { reason, code }) {
    const told = code || (this.#troubles.get(direction) ?? "");
    this.#troubles.delete(direction);
    return missingWord(reason, told);
  }

  /** @param {Sentence} sentence */
  #announce({ translated, target }) {
    const line = document.createElement("p");
    line.lang = target;
    line.textContent = translated;
    this.#announcer.append(line);
    if (this.#announcer.children.length > MAX_ANNOUNCED) this.#announcer.firstChild?.remove();
  }

  /**
   * @param {Direction} direction
   * @param {Sentence} sentence
   * @param {Translation} result
   */
  #speak(direction, sentence, result) {
    const on = {
      ready: (/** @type {Clip} */ clip) => this.#conversation.change(sentence, { clip }),
      started: () => this.#conversation.change(sentence, { isPlaying: true }),
      ended: () => this.#conversation.change(sentence, { isPlaying: false }),
    };
    this.#sound.player?.add(result, on, direction.session);
  }
}
