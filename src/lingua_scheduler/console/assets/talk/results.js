// What comes back: texts into the conversation, speech to the loudspeaker in the same order.

import { decode } from "./speech.js";
import { isWord } from "./words.js";

/** @import {AsrPartial, MissingResult, Outcome, TranslationResult, UiEvent} from "../shared/types" */
/** @import {Conversation, Sentence} from "./conversation.js" */
/** @import {Direction} from "./directions.js" */
/** @import {Sound} from "./sound.js" */
/** @import {Word} from "./words.js" */

const MAX_ANNOUNCED = 20;
/** @type {Record<string, Word>} */
const REASONS = {
  gap_timeout: "missing_late",
  pending_overflow_evict: "missing_late",
  job_failed: "missing_job_failed",
};
// Of failed jobs, codes that share a word with another reason.
/** @type {Record<string, Word>} */
const CODES = { JOB_TIMEOUT: "missing_late" };

export class Results {
  #conversation;
  #sound;
  #announcer;
  #onMute;
  #decoding = Promise.resolve();
  /** @type {WeakMap<Direction, string>} */
  #troubles = new WeakMap();

  /**
   * `announcer` is read aloud by screen readers; `onMute` is told when speech cannot be decoded.
   * @param {Conversation} conversation
   * @param {Sound} sound
   * @param {HTMLElement} announcer
   * @param {() => void} onMute
   */
  constructor(conversation, sound, announcer, onMute) {
    this.#conversation = conversation;
    this.#sound = sound;
    this.#announcer = announcer;
    this.#onMute = onMute;
  }

  /**
   * @param {Direction} direction
   * @param {AsrPartial} message
   */
  partial(direction, { utterance_index, text }) {
    const sentence = this.#conversation.numbered(direction, utterance_index);
    if (sentence.state === "done" || sentence.state === "missing") return;
    const state = sentence.state === "listening" ? "listening" : "partial";
    this.#conversation.change(sentence, { heard: String(text), state });
  }

  /**
   * Why there will be no translation; the outcome follows.
   * @param {Direction} direction
   * @param {UiEvent} message
   */
  trouble(direction, { error_code }) {
    this.#troubles.set(direction, String(error_code ?? ""));
  }

  /**
   * @param {Direction} direction
   * @param {Outcome} message
   */
  outcome(direction, message) {
    const sentence = this.#conversation.numbered(direction, message.utterance_index);
    if (message.type === "missing_result") {
      this.#conversation.change(sentence, { state: "missing", reason: this.#reason(direction, message) });
      return;
    }
    const texts = { heard: message.text_asr, translated: message.text_translated };
    this.#conversation.change(sentence, { ...texts, state: "done" });
    this.#announce(sentence);
    if (message.tts_audio) this.#decoding = this.#decoding.then(() => this.#speak(direction, sentence, message));
  }

  /** @param {number} id */
  replay(id) {
    const clip = this.#conversation.all.find((one) => one.id === id)?.clip;
    if (clip) this.#sound.wake().then(() => this.#sound.player?.replay(clip));
  }

  /**
   * A time-out and a cancelled job are not silence. Older schedulers tell the code only in an event before.
   * @param {Direction} direction
   * @param {MissingResult} message
   * @returns {Word}
   */
  #reason(direction, { reason, code }) {
    const told = code || (this.#troubles.get(direction) ?? "");
    this.#troubles.delete(direction);
    if (reason !== "job_failed") return REASONS[reason] ?? "missing_no_text";
    const word = `missing_${told}`;
    return CODES[told] ?? (isWord(word) ? word : REASONS[reason]);
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
   * @param {TranslationResult} message
   */
  async #speak(direction, sentence, message) {
    if (!this.#sound.context) return;
    try {
      const buffer = await decode(message.tts_audio, message.tts_format, this.#sound.context);
      const clip = {
        buffer,
        onStart: () => this.#playing(direction, sentence, message, true),
        onEnd: () => this.#playing(direction, sentence, message, false),
      };
      this.#conversation.change(sentence, { clip });
      this.#sound.player?.add(clip);
    } catch {
      this.#onMute();
    }
  }

  /**
   * The scheduler wants to know when a translation is heard: it does not take it for a pause.
   * @param {Direction} direction
   * @param {Sentence} sentence
   * @param {TranslationResult} message
   * @param {boolean} isPlaying
   */
  #playing(direction, sentence, message, isPlaying) {
    direction.link.playback(isPlaying ? "tts_started" : "tts_play_ended", message);
    this.#conversation.change(sentence, { isPlaying });
  }
}
