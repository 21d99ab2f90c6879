// One AudioContext for the microphone and the loudspeaker; made at once, woken by the first touch.

import { Microphone } from "./microphone.js";
import { Player } from "./player.js";

const WAKE_WITHIN_MS = 1_000;

/** @typedef {(loudness: {seconds: number, peak: number}) => void} OnLoudness */

export class Sound {
  /** @type {AudioContext | null} */
  #context = null;
  /** @type {Promise<void> | null} */
  #loading = null;
  #onLoudness;
  #isMuted;
  /** @type {Microphone | null} */
  microphone = null;
  /** @type {Player | null} */
  player = null;

  /**
   * @param {boolean} isMuted
   * @param {OnLoudness} onLoudness
   */
  constructor(isMuted, onLoudness) {
    this.#isMuted = isMuted;
    this.#onLoudness = onLoudness;
    // Only a secure page has worklets; other pages show an error when the microphone is requested.
    if (!window.isSecureContext || !window.AudioContext) return;
    this.#loading = this.#load();
    for (const kind of ["pointerup", "click", "keydown"]) document.addEventListener(kind, () => this.wake());
  }

  get context() {
    return this.#context;
  }

  /** @param {boolean} muted */
  set isMuted(muted) {
    this.#isMuted = muted;
    if (this.player) this.player.isMuted = muted;
  }

  /** To be called from a touch, a click or a key: browsers stay silent until then. Whether there is sound now. */
  async wake() {
    const waking = this.#context?.resume();
    await this.#loading;
    // On some phones a finger that lies on the screen does not count; one that was lifted does.
    await Promise.race([waking, new Promise((done) => setTimeout(done, WAKE_WITHIN_MS))]);
    return this.#context?.state === "running";
  }

  async #load() {
    const context = new AudioContext({ latencyHint: "interactive" });
    this.#context = context;
    await context.audioWorklet.addModule(new URL("./sound.worklet.js", import.meta.url));
    this.microphone = new Microphone(context);
    this.player = new Player(context, this.#onLoudness);
    this.player.isMuted = this.#isMuted;
  }
}
