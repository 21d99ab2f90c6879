// The bar: how the connection is, theme and language of the page; and every text of the page that never changes.
import { button, find, label, root } from "../shared/elements.js";
import { tag } from "../shared/i18n.js";
import { turnTheme } from "../shared/theme.js";
import { spaced } from "./address.js";
import { isWord, reader, say } from "./words.js";

/** @import {LinkState} from "../shared/sessions.js" */

export class Bar {
  #told = find(HTMLElement, "#state .told");
  /** @type {LinkState | "out"} */
  #state = "out";
  #code = "";

  /**
   * @param {() => void} onLanguage
   * @param {() => void} onLeave
   */
  constructor(onLanguage, onLeave) {
    button("#theme").addEventListener("click", turnTheme);
    button("#interface").addEventListener("click", onLanguage);
    button("#leave").addEventListener("click", onLeave);
  }

  /** @param {LinkState | "out"} state */
  state = (state) => {
    this.#state = state;
    root.dataset.state = state;
    const isIn = state === "open" && this.#code;
    const inRoom = root.hasAttribute("data-guest") ? "state_listening" : "state_in";
    const told = isIn ? say(inRoom, { code: spaced(this.#code) }) : say(`state_${state}`);
    if (this.#told.textContent !== told) this.#told.textContent = told;
  };

  /** @param {string} code of the room; empty outside of one */
  set code(code) {
    this.#code = code;
    this.state(this.#state);
  }

  show() {
    root.lang = tag(reader());
    document.title = `${say("title")} · Lingua Scheduler`;
    each("data-word", (element, text) => (element.textContent = text));
    each("data-label", label);
    each("data-name", (element, text) => element.setAttribute("aria-label", text));
    each("data-hint", (element, text) => {
      element.setAttribute("placeholder", text);
      if (!element.closest("label")) element.setAttribute("aria-label", text);
    });
    find(HTMLElement, "#interface span").textContent = reader() === "zh" ? "EN" : "中";
    this.state(this.#state);
  }
}

/**
 * @param {string} attribute that names a word
 * @param {(element: Element, text: string) => void} put
 */
function each(attribute, put) {
  for (const element of document.querySelectorAll(`[${attribute}]`)) {
    const key = element.getAttribute(attribute) ?? "";
    if (isWord(key)) put(element, say(key));
  }
}
