// One AudioContext for the microphone and the loudspeaker; made at once, woken by the first touch.

import { Microphone } from "./microphone.js";
import { Player } from "./player.js";

const WAKE_WITHIN_MS = 1_000;

export class Sound {
  #context = null;
  #loading = null;
  #onLoudness;
  #isMuted;
  microphone = null;
  player = null;

  constructor(isMuted, onLoudness) {
    this.#isMuted = isMuted;
    this.#onLoudness = onLoudness;
    // Only a secure page has worklets; the others are told so when they ask for the microphone.
    if (!window.isSecureContext || !window.AudioContext) return;
    this.#loading = this.#load();
    for (const kind of ["pointerup", "click", "keydown"]) document.addEventListener(kind, () => this.wake());
  }

  get context() {
    return this.#context;
  }

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
    this.#context = new AudioContext({ latencyHint: "interactive" });
    await this.#context.audioWorklet.addModule(new URL("./sound.worklet.js", import.meta.url));
    this.microphone = new Microphone(this.#context);
    this.player = new Player(this.#context, this.#onLoudness);
    this.player.isMuted = this.#isMuted;
  }
}
