// The button to talk, hands-free, and the sound.
import { holdOrTap, keyboard } from "../shared/button.js";
import { button, find, label, root } from "../shared/elements.js";
import { choices } from "./choices.js";
import { say } from "./words.js";

/** @import {Phase, Talking} from "./talking.js" */
/** @import {Choices} from "./choices.js" */
/** @import {Word} from "./words.js" */

const HAS_KEYS = window.matchMedia?.("(hover: hover) and (pointer: fine)").matches ?? false;

export class Controls {
  #speak = button("#speak");
  #free = button("#free");
  #sound = button("#sound");
  #hint = find(HTMLElement, "#hint");
  #talking;
  /** @type {Phase} */
  #phase = "off";

  /**
   * @param {Talking} talking
   * @param {(changes: Partial<Choices>) => void} change
   */
  constructor(talking, change) {
    this.#talking = talking;
    this.#free.addEventListener("click", () => {
      talking.stop();
      change({ isHandsFree: !choices.isHandsFree });
      if (choices.isHandsFree) talking.start(true);
    });
    this.#sound.addEventListener("click", () => change({ isSilent: !choices.isSilent }));
    keyboard([{ button: this.#speak, gesture: holdOrTap(this.#speak, this.#gestures()) }]);
  }

  /** @param {Phase} phase */
  become(phase) {
    this.#phase = phase;
    this.show();
  }

  /** @param {number} level 0…1 */
  hear(level) {
    this.#speak.style.setProperty("--level", Math.min(1, level * 4).toFixed(3));
  }

  /** All of it: after a choice. */
  show() {
    const isOn = this.#phase !== "off";
    root.dataset.phase = this.#phase;
    this.#speak.setAttribute("aria-pressed", String(isOn));
    // Or the space bar would open the microphone of one who may only listen.
    this.#speak.disabled = root.hasAttribute("data-guest");
    label(this.#speak, say(this.#action(isOn)));
    find(SVGUseElement, "#speak use").setAttribute("href", choices.isHandsFree && !isOn ? "#icon-mic-off" : "#icon-mic");
    this.#hint.textContent = say(this.#state());
    this.#free.setAttribute("aria-pressed", String(choices.isHandsFree));
    this.#sound.setAttribute("aria-pressed", String(choices.isSilent));
    label(this.#sound, say(choices.isSilent ? "sound_off" : "sound_on"));
    find(SVGUseElement, "#sound use").setAttribute("href", choices.isSilent ? "#icon-muted" : "#icon-sound");
  }

  /**
   * @param {boolean} isOn
   * @returns {Word}
   */
  #action(isOn) {
    if (!choices.isHandsFree) return "speak";
    return isOn ? "mute" : "unmute";
  }

  /** @returns {Word} */
  #state() {
    if (this.#phase === "opening") return "opening";
    if (choices.isHandsFree) return this.#phase === "off" ? "muted" : "live";
    if (this.#phase === "latched") return "listening_tap";
    if (this.#phase === "held") return "listening";
    return HAS_KEYS ? "hold_keys" : "hold";
  }

  /** Hands-free a press turns the microphone on or off, however long it is. */
  #gestures() {
    const talking = this.#talking;
    let wasStarted = false;
    return {
      get isTalking() {
        return talking.isOn;
      },
      start: () => {
        wasStarted = true;
        talking.start(choices.isHandsFree);
      },
      latch: () => {
        wasStarted = false;
        talking.latch();
      },
      stop: () => {
        if (!choices.isHandsFree || !wasStarted) talking.stop();
        wasStarted = false;
      },
    };
  }
}
