// One AudioContext for the microphone and the loudspeaker; made at once, woken by the first touch.
import { KeptMicrophone, Player, prepareMicrophone } from "./client.js";

/** @typedef {(context: AudioContext) => Promise<AudioNode>} Output where translations are heard */

const WAKE_WITHIN_MS = 1_000;
// Each translation names the session that is told when it is heard.
const UNTOLD = { playback: () => {} };

export class Sound {
  /** @type {AudioContext | null} */
  #context = null;
  /** @type {Promise<void> | null} */
  #loading = null;
  #output;
  #volume;
  #onFailure;
  /** @type {KeptMicrophone | null} */
  microphone = null;
  /** @type {Player | null} */
  player = null;
  /**
   * The microphone was opened, or closed (null).
   * @type {(stream: MediaStream | null) => void}
   */
  onStream = () => {};

  /**
   * @param {number} volume 0…1, of translations
   * @param {() => void} onFailure speech could not be decoded
   * @param {Output} [output] by default the loudspeaker
   */
  constructor(volume, onFailure, output = async ({ destination }) => destination) {
    this.#volume = volume;
    this.#onFailure = onFailure;
    this.#output = output;
    // Only a secure page has worklets; other pages show an error when the microphone is requested.
    if (!window.isSecureContext || !window.AudioContext) return;
    this.#loading = this.#load();
    for (const kind of ["pointerup", "click", "keydown"]) document.addEventListener(kind, () => this.wake());
  }

  /** @param {number} loudness 0…1, of translations */
  set volume(loudness) {
    this.#volume = loudness;
    if (this.player) this.player.volume = loudness;
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
    const [output] = await Promise.all([this.#output(context), prepareMicrophone({ context })]);
    this.microphone = new KeptMicrophone({ context }, (stream) => this.onStream(stream));
    this.player = new Player(UNTOLD, { context, output, onError: this.#onFailure });
    this.player.volume = this.#volume;
  }
}
