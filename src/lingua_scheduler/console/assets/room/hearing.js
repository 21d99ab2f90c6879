// What is heard: translations one after another, and the voices of the others, quieter while a translation is played.

/** @import {Clip, Said, Session} from "../shared/client.js" */
/** @import {Sound} from "../shared/sound.js" */
/** @import {Line} from "./transcript.js" */

// How loud voices are beside a translation.
const DUCKED = 0.2;

export class Hearing {
  #sound;
  #place;
  #on;
  /** @type {Map<string, HTMLAudioElement>} */
  #voices = new Map();
  /** @type {Set<string>} */
  #quiet = new Set();
  #volume = 1;
  #isDucked = false;

  /**
   * @param {Sound} sound
   * @param {HTMLElement} place where the elements that play are kept
   * @param {{playing(line: Line, isPlaying: boolean): void, ready(line: Line, clip: Clip): void}} on
   */
  constructor(sound, place, on) {
    this.#sound = sound;
    this.#place = place;
    this.#on = on;
  }

  /**
   * @param {number} voices 0…1
   * @param {number} translations 0…1
   */
  setVolumes(voices, translations) {
    this.#volume = voices;
    this.#sound.volume = translations;
    this.#adjust();
  }

  /**
   * @param {string} id
   * @param {MediaStream} stream
   */
  voice(id, stream) {
    const audio = this.#voices.get(id) ?? document.createElement("audio");
    audio.autoplay = true;
    audio.srcObject = stream;
    audio.dataset.id = id;
    this.#voices.set(id, audio);
    this.#place.append(audio);
    this.#adjust();
    // A browser that wants a touch first plays it at the next one.
    audio.play().catch(() => document.addEventListener("pointerup", () => audio.play().catch(() => {}), { once: true }));
  }

  /** @param {string} id */
  silence(id) {
    const audio = this.#voices.get(id);
    if (!audio) return;
    audio.srcObject = null;
    audio.remove();
    this.#voices.delete(id);
  }

  /**
   * @param {string} id
   * @param {boolean} isQuiet this person's voice is not wanted
   */
  setQuiet(id, isQuiet) {
    if (isQuiet) this.#quiet.add(id);
    else this.#quiet.delete(id);
    this.#adjust();
  }

  /**
   * @param {Line} line
   * @param {Said} said
   * @param {Session} session which is told when it is played
   */
  translation(line, said, session) {
    const played = (/** @type {boolean} */ isPlaying) => {
      this.#isDucked = isPlaying;
      this.#adjust();
      this.#on.playing(line, isPlaying);
    };
    const on = {
      ready: (/** @type {Clip} */ clip) => this.#on.ready(line, clip),
      started: () => played(true),
      ended: () => played(false),
    };
    this.#sound.player?.add(said, on, session);
  }

  /** @param {Line} line */
  replay({ clip }) {
    if (clip) this.#sound.wake().then(() => this.#sound.player?.replay(clip));
  }

  /** Nothing more of what was said is played. */
  stop() {
    this.#sound.player?.quiet();
    for (const id of [...this.#voices.keys()]) this.silence(id);
    this.#isDucked = false;
  }

  #adjust() {
    const volume = this.#volume * (this.#isDucked ? DUCKED : 1);
    for (const [id, audio] of this.#voices) {
      audio.volume = volume;
      audio.muted = volume === 0 || this.#quiet.has(id);
    }
  }
}
