// One half of the page: a language to choose, a button to talk, and what is in the way.
import { find } from "../shared/elements.js";
import { isMicrophonePossible } from "../shared/client.js";
import { isCalm, nodeCommand, obstacle } from "./obstacles.js";
import { forKeys, isWord, nameOf, say, sentence } from "./words.js";

/** @import {Fillings} from "../shared/i18n.js" */
/** @import {Offers} from "../shared/offers.js" */
/** @import {Side} from "./page.js" */
/** @import {Speakers} from "./speakers.js" */
/** @import {Word} from "./words.js" */

/** @typedef {"idle" | "opening" | "listening" | "listening_tap"} Phase */

export class Half {
  #speakers;
  #offers;
  /** @type {Phase} */
  #phase = "idle";
  /** @type {{key: Word, values: Fillings} | null} */
  #notice = null;
  #shown = "";

  /**
   * @param {Side} side
   * @param {Speakers} speakers
   * @param {Offers} offers
   */
  constructor(side, speakers, offers) {
    this.side = side;
    this.#speakers = speakers;
    this.#offers = offers;
    this.element = find(HTMLElement, `.half[data-side=${side}]`);
    this.list = find(HTMLElement, ".stream", this.element);
    this.select = find(HTMLSelectElement, "select", this.element);
    this.button = find(HTMLButtonElement, ".speak", this.element);
    this.talk = find(HTMLElement, ".talk", this.element);
  }

  /** The language its person reads. */
  get reads() {
    return this.#speakers.reads(this.side);
  }

  /**
   * @param {Word} key
   * @param {Fillings} [values]
   */
  word(key, values) {
    return say(this.reads, key, values);
  }

  /** All of it: the language, or what is served, may be another one. */
  show() {
    this.element.lang = this.reads;
    for (const element of this.element.querySelectorAll("[data-word]")) {
      const key = element.getAttribute("data-word") ?? "";
      const shown = this.#shownWord(key);
      if (isWord(shown)) element.textContent = this.word(shown);
    }
    this.#showLanguages();
    this.#showNotice();
    this.#showTalk();
  }

  /** @param {string} key */
  #shownWord(key) {
    if (isCalm(this.#obstacle()) && (key === "to" || key === "speaks")) return "reads";
    if (key === "to" && this.#speakers.isFace) return "speaks";
    if (key === "empty" && isCalm(this.#obstacle())) return "empty_listen";
    return isWord(key) ? forKeys(key, hasKeys()) : key;
  }

  /** @param {Phase} phase */
  become(phase) {
    this.#phase = phase;
    this.#showTalk();
  }

  /** @param {number} level how loud it is, 0…1 */
  hear(level) {
    this.talk.style.setProperty("--level", Math.min(1, level * 5).toFixed(3));
  }

  /**
   * @param {Word | null} key null: there is nothing to tell any more
   * @param {Fillings} [values]
   */
  tell(key, values = {}) {
    this.#notice = key && { key, values };
    this.#showNotice();
    this.#showHint();
  }

  #showLanguages() {
    const { a, b } = this.#speakers.languages;
    const codes = new Set([...this.#offers.languages, a, b].filter(Boolean));
    const named = [...codes].map((code) => ({ code, name: nameOf(code, this.reads) }));
    named.sort((one, two) => one.name.localeCompare(two.name, this.reads));
    const shown = JSON.stringify(named);
    if (this.#shown !== shown) this.select.replaceChildren(...named.map(({ code, name }) => new Option(name, code)));
    this.#shown = shown;
    this.select.value = this.#speakers.languages[this.side];
  }

  #obstacle() {
    return obstacle(this.#speakers.pair(this.side), this.#offers, isMicrophonePossible(), this.#speakers.isFace);
  }

  #told() {
    const key = this.#obstacle();
    if (key === "") return "";
    if (key === null) return this.#notice ? this.word(this.#notice.key, this.#notice.values) : "";
    // The command is for who set this up; the person on the other side is told by the hint.
    if (key === "no_nodes" && this.side === "b") return "";
    if (key === "no_nodes") return this.word(key, { command: nodeCommand(location) });
    const { source, target } = this.#speakers.pair(this.side);
    return sentence(this.reads, key, { source, target });
  }

  #showNotice() {
    const element = find(HTMLElement, ".notice", this.element);
    element.textContent = this.#told();
    element.hidden = !element.textContent;
    const calm = isCalm(this.#obstacle());
    element.classList.toggle("is-calm", calm);
    element.setAttribute("role", calm ? "status" : "alert");
    // A person who is talking can still end it.
    this.button.disabled = this.#obstacle() !== null && this.#phase === "idle";
  }

  #showHint() {
    const key = this.#phase === "idle" ? hint(this.#obstacle()) : this.#phase;
    find(HTMLElement, ".hint", this.element).textContent = key && this.word(forKeys(key, hasKeys()));
  }

  #showTalk() {
    const language = this.#speakers.languages[this.side] || "en";
    this.element.dataset.phase = this.#phase;
    this.button.setAttribute("aria-pressed", String(this.#phase !== "idle"));
    this.button.setAttribute("aria-label", sentence(this.reads, "talk_in", { language }));
    const icon = this.#phase === "listening_tap" ? "#icon-stop" : "#icon-mic";
    find(SVGUseElement, "use", this.button).setAttribute("href", icon);
    this.#showHint();
  }
}

/**
 * "" before the first answer of the scheduler.
 * @param {Word | "" | null} hindrance
 * @returns {Word | ""}
 */
function hint(hindrance) {
  if (hindrance === null) return "hold";
  if (isCalm(hindrance)) return "read_here";
  return hindrance && "cannot";
}

/** Whether the device has a keyboard, as far as a page can know: a mouse comes with one. */
function hasKeys() {
  return window.matchMedia("(hover: hover) and (pointer: fine)").matches;
}
