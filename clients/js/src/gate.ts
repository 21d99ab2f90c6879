// Voice activity detection: where the microphone stays on, the end of a sentence must be detected.

const PAUSE_FRAMES = 8;
const LEAD_FRAMES = 3;
const QUIETEST = 0.008;
const OVER_NOISE = 3;
const NOISE_RISES = 1.02;
const FRAME_MS = 100;

/** 100 ms of sound; `level` is 0…1. `isLast`: the microphone was stopped. */
export interface Frame {
  samples: Int16Array;
  level: number;
  isLast: boolean;
}

export interface Passed {
  samples: Int16Array;
  isFinal: boolean;
}

/** Lets speech through with a little of what came before it, and marks the end of each sentence. */
export class Gate {
  #noise = QUIETEST;
  #lead: Int16Array[] = [];
  #quiet = 0;
  #isSpeech = false;

  get isSpeech(): boolean {
    return this.#isSpeech;
  }

  /** How long it has been quiet. */
  get quietMs(): number {
    return this.#quiet * FRAME_MS;
  }

  /** What of it is to be sent. */
  pass({ samples, level, isLast }: Frame): Passed[] {
    const isLoud = level > Math.max(QUIETEST, this.#noise * OVER_NOISE);
    this.#noise = level < this.#noise ? level : Math.min(this.#noise * NOISE_RISES + 1e-6, 0.1);
    this.#quiet = isLoud ? 0 : this.#quiet + 1;
    if (!this.#isSpeech) return this.#begin(samples, isLoud, isLast);
    const isFinal = isLast || this.#quiet >= PAUSE_FRAMES;
    this.#isSpeech = !isFinal;
    return [{ samples, isFinal }];
  }

  #begin(samples: Int16Array, isLoud: boolean, isLast: boolean): Passed[] {
    this.#lead.push(samples);
    if (this.#lead.length > LEAD_FRAMES) this.#lead.shift();
    if (!isLoud) return [];
    this.#isSpeech = !isLast;
    return this.#lead.splice(0).map((lead, i, all) => ({ samples: lead, isFinal: isLast && i === all.length - 1 }));
  }
}
