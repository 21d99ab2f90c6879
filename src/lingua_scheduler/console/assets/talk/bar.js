// The bar: how the connection is, and the buttons for sound, size, layout, theme and language.
import { button, find, label, root } from "../shared/elements.js";
import { tag } from "../shared/i18n.js";
import { turnTheme } from "../shared/theme.js";
import { choices, SIZES } from "./choices.js";
import { isWord, say } from "./words.js";

/** @import {Choices} from "./choices.js" */
/** @import {Speakers} from "./speakers.js" */
/** @import {Word} from "./words.js" */

export class Bar {
  #speakers;
  #told = find(HTMLElement, "#state .told");

  /**
   * @param {Speakers} speakers
   * @param {{change(changes: Partial<Choices>): void, layout(): void, swap(): void, clear(): void}} on
   */
  constructor(speakers, on) {
    this.#speakers = speakers;
    button("#swap").addEventListener("click", () => on.swap());
    button("#clear").addEventListener("click", () => on.clear());
    button("#sound").addEventListener("click", () => on.change({ isMuted: !choices.isMuted }));
    button("#size").addEventListener("click", () => on.change({ size: (choices.size + 1) % SIZES }));
    button("#layout").addEventListener("click", () => on.layout());
    button("#theme").addEventListener("click", turnTheme);
    button("#interface").addEventListener("click", () =>
      on.change({ interface: choices.interface === "zh" ? "en" : "zh" }),
    );
  }

  /** All of it: after a choice. */
  show() {
    const language = this.#speakers.interface;
    root.lang = tag(language);
    root.dataset.layout = choices.layout;
    root.dataset.size = String(choices.size);
    document.title = `${say(language, "title")} · Lingua Scheduler`;
    find(HTMLElement, ".bar [data-word=title]").textContent = say(language, "title");
    for (const element of document.querySelectorAll("[data-label]")) {
      const key = element.getAttribute("data-label") ?? "";
      if (element instanceof HTMLElement && isWord(key)) label(element, say(language, key));
    }
    label(button("#sound"), say(language, choices.isMuted ? "sound_off" : "sound_on"));
    find(SVGUseElement, "#sound use").setAttribute("href", choices.isMuted ? "#icon-muted" : "#icon-sound");
    button("#sound").setAttribute("aria-pressed", String(choices.isMuted));
    find(HTMLElement, "#interface span").textContent = choices.interface === "zh" ? "EN" : "中";
  }

  /** @param {Word} word how the connection is */
  showState(word) {
    const told = say(this.#speakers.interface, word);
    if (this.#told.textContent !== told) this.#told.textContent = told;
    find(HTMLElement, "#state").title = told;
  }
}
