// Voice activity detection: after a tap the microphone stays on, so the end of a sentence must be detected.

const PAUSE_FRAMES = 8;
const LEAD_FRAMES = 3;
const QUIETEST = 0.008;
const OVER_NOISE = 3;
const NOISE_RISES = 1.02;
// After this much silence the person has probably forgotten the microphone.
const FORGOTTEN_FRAMES = 300;

/** @typedef {{samples: Int16Array, level: number, isLast: boolean}} Frame of 100 ms; level is 0…1 */

/** Lets speech through with a little of what came before it, and marks the end of each sentence. */
export class Gate {
  #noise = QUIETEST;
  /** @type {Int16Array[]} */
  #lead = [];
  #quiet = 0;
  #isSpeech = false;

  get isForgotten() {
    return this.#quiet >= FORGOTTEN_FRAMES;
  }

  /**
   * What of it is to be sent.
   * @param {Frame} frame
   * @returns {{samples: Int16Array, isFinal: boolean}[]}
   */
  pass({ samples, level, isLast }) {
    const isLoud = level > Math.max(QUIETEST, this.#noise * OVER_NOISE);
    this.#noise = level < this.#noise ? level : Math.min(this.#noise * NOISE_RISES + 1e-6, 0.1);
    this.#quiet = isLoud ? 0 : this.#quiet + 1;
    if (!this.#isSpeech) {
      this.#lead.push(samples);
      if (this.#lead.length > LEAD_FRAMES) this.#lead.shift();
      if (!isLoud) return [];
      this.#isSpeech = true;
      return this.#lead.splice(0).map((lead, i, all) => ({ samples: lead, isFinal: isLast && i === all.length - 1 }));
    }
    const isFinal = isLast || this.#quiet >= PAUSE_FRAMES;
    this.#isSpeech = !isFinal;
    return [{ samples, isFinal }];
  }
}
