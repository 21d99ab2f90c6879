// The panel beside the conversation: invitation, people, own name and language, sound, transcript, and the host's part.
import { button, find, root } from "../shared/elements.js";
import { choices, MAX_NAME_CHARS } from "./choices.js";
import { fillLanguages } from "./door.js";
import { say } from "./words.js";

/** @import {Choices} from "./choices.js" */
/** @import {Word} from "./words.js" */

/**
 * @typedef {object} SideEvents
 * @property {(changes: Partial<Choices>) => void} change
 * @property {(locked: boolean) => void} lock
 * @property {() => void} end
 * @property {() => void} download
 */

export class Side {
  #side = find(HTMLElement, "#side");
  #name = find(HTMLInputElement, "#my-name");
  #language = find(HTMLSelectElement, "#my-language");
  #voices = find(HTMLInputElement, "#voices");
  #translations = find(HTMLInputElement, "#translations");
  #sure = find(HTMLDialogElement, "#sure");
  /** @type {() => void} */
  #confirmed = () => {};

  /** @param {SideEvents} on */
  constructor(on) {
    button("#panel").addEventListener("click", () => this.#open(root.dataset.panel !== "open"));
    button("#panel-close").addEventListener("click", () => this.#open(false));
    this.#side.addEventListener("keydown", ({ key }) => key === "Escape" && this.#open(false));
    this.#name.addEventListener("change", () => on.change({ name: this.#name.value.trim().slice(0, MAX_NAME_CHARS) }));
    this.#language.addEventListener("change", () => on.change({ language: this.#language.value }));
    this.#voices.addEventListener("input", () => on.change({ voices: Number(this.#voices.value), isSilent: false }));
    this.#translations.addEventListener("input", () =>
      on.change({ translations: Number(this.#translations.value), isSilent: false }),
    );
    button("#lock").addEventListener("click", () => on.lock(button("#lock").getAttribute("aria-pressed") !== "true"));
    button("#end").addEventListener("click", () => this.ask("close_sure", "do_close", {}, on.end));
    button("#download").addEventListener("click", () => on.download());
    button("#no").addEventListener("click", () => this.#sure.close());
    button("#yes").addEventListener("click", () => {
      this.#sure.close();
      this.#confirmed();
    });
  }

  /**
   * Before something that cannot be undone.
   * @param {Word} question
   * @param {Word} answer
   * @param {Record<string, string>} values
   * @param {() => void} confirmed
   */
  ask(question, answer, values, confirmed) {
    find(HTMLElement, "#sure-title").textContent = say(question, values);
    button("#yes").textContent = say(answer);
    this.#confirmed = confirmed;
    this.#sure.showModal();
    button("#no").focus();
  }

  close() {
    this.#open(false);
    this.#sure.close();
  }

  /**
   * @param {string[]} languages
   * @param {boolean} hasVoices a guest hears translations alone
   */
  show(languages, hasVoices) {
    if (document.activeElement !== this.#name) this.#name.value = choices.name;
    fillLanguages(this.#language, languages);
    this.#voices.value = String(choices.voices);
    this.#translations.value = String(choices.translations);
    find(HTMLElement, "#voices-label").hidden = !hasVoices;
  }

  /** @param {boolean} isOpen where it is not always to be seen */
  #open(isOpen) {
    const wasOpen = root.dataset.panel === "open";
    root.dataset.panel = isOpen ? "open" : "closed";
    button("#panel").setAttribute("aria-expanded", String(isOpen));
    // Behind the panel nothing can be reached.
    find(HTMLElement, "#talk").inert = isOpen;
    if (isOpen) button("#panel-close").focus();
    else if (wasOpen) button("#panel").focus();
  }
}
