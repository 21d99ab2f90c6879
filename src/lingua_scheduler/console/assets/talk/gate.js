// After a tap the microphone stays on, so somebody has to notice where a sentence ends.

const PAUSE_FRAMES = 8;
const LEAD_FRAMES = 3;
const QUIETEST = 0.008;
const OVER_NOISE = 3;
const NOISE_RISES = 1.02;
// Nobody has spoken for so long that the person has forgotten it.
const FORGOTTEN_FRAMES = 300;

/** Lets speech through with a little of what came before it, and marks the end of each sentence. */
export class Gate {
  #noise = QUIETEST;
  #lead = [];
  #quiet = 0;
  #isSpeech = false;

  get isForgotten() {
    return this.#quiet >= FORGOTTEN_FRAMES;
  }

  /** What of it is to be sent: a list of {samples, isFinal}. */
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
