// One half's view of the conversation: what was said in its own language large, the other beside it.
import { icon } from "../shared/elements.js";

/** @import {Sentence} from "./conversation.js" */
/** @import {Side} from "./page.js" */
/** @import {Word} from "./words.js" */

/** @typedef {{item: HTMLElement, heard: HTMLElement, translated: HTMLElement, replay: HTMLElement}} Line */

export class Stream {
  #list;
  #viewer;
  #words;
  #onReplay;
  /** @type {Map<number, Line>} */
  #lines = new Map();

  /**
   * `viewer` is the side that reads it; `words(key)` speaks its language.
   * @param {HTMLElement} list
   * @param {Side} viewer
   * @param {(key: Word) => string} words
   * @param {(id: number) => void} onReplay
   */
  constructor(list, viewer, words, onReplay) {
    this.#list = list;
    this.#viewer = viewer;
    this.#words = words;
    this.#onReplay = onReplay;
  }

  /**
   * One sentence has changed; null means that anything may have.
   * @param {Sentence[]} sentences
   * @param {Sentence | null} changed
   */
  show(sentences, changed) {
    this.#forget(sentences);
    const filled = changed ? sentences.filter((one) => one === changed) : sentences;
    const hasNew = filled.some(({ id }) => !this.#lines.has(id));
    for (const sentence of filled) this.#fill(this.#lines.get(sentence.id) ?? this.#make(sentence), sentence);
    const isAtEnd = changed === null || changed === sentences.at(-1);
    if (hasNew || isAtEnd) this.#list.scrollTop = this.#list.scrollHeight;
  }

  /** @param {Sentence[]} sentences */
  #forget(sentences) {
    const kept = new Set(sentences.map(({ id }) => id));
    for (const [id, { item }] of this.#lines) {
      if (kept.has(id)) continue;
      item.remove();
      this.#lines.delete(id);
    }
  }

  /**
   * @param {Sentence} sentence
   * @returns {Line}
   */
  #make({ id }) {
    const item = document.createElement("li");
    const made = { item, heard: line("heard"), translated: line("translated"), replay: this.#button(id) };
    item.dataset.id = String(id);
    item.append(made.heard, made.translated, made.replay);
    this.#list.append(item);
    this.#lines.set(id, made);
    return made;
  }

  /** @param {number} id */
  #button(id) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "replay";
    button.append(icon("play"));
    button.addEventListener("click", () => this.#onReplay(id));
    return button;
  }

  /**
   * @param {Line} line
   * @param {Sentence} sentence
   */
  #fill({ item, heard, translated, replay }, sentence) {
    item.className = `${sentence.side === this.#viewer ? "mine" : "theirs"} ${sentence.state}`;
    item.classList.toggle("playing", sentence.isPlaying);
    const isHeard = sentence.heard || sentence.state !== "listening";
    put(heard, isHeard ? sentence.heard : this.#words("listening"), sentence.source);
    put(translated, this.#translated(sentence), sentence.target);
    replay.hidden = !sentence.clip;
    replay.setAttribute("aria-label", this.#words("replay"));
  }

  /** @param {Sentence} sentence */
  #translated({ state, reason, translated }) {
    if (state === "missing") return reason && this.#words(reason);
    const isWaiting = state === "pending" || state === "partial";
    return translated || (isWaiting ? this.#words("translating") : "");
  }
}

/** @param {string} name */
function line(name) {
  const paragraph = document.createElement("p");
  paragraph.className = name;
  paragraph.dir = "auto";
  return paragraph;
}

/**
 * @param {HTMLElement} element
 * @param {string} text
 * @param {string} language
 */
function put(element, text, language) {
  if (element.textContent !== text) element.textContent = text;
  element.lang = language;
  element.hidden = !text;
}
