// Sound at any rate as 16 kHz.

export const RATE = 16_000;
// Half the filter's length, in periods of its cutoff: the steeper, the longer.
const LOBES = 24;
// The passband ends here, as a part of half the lower rate; what is above folds back unless it is taken out.
const PASS = 0.9;
const KAISER_BETA = 8;
const MAX_PHASES = 4_096;

/** The zeroth modified Bessel function, by its series. */
function bessel(x: number): number {
  let sum = 1;
  for (let term = 1, k = 1; term > 1e-12 * sum; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

function divisor(a: number, b: number): number {
  return b === 0 ? a : divisor(b, a % b);
}

/** A polyphase low-pass filter: a Kaiser-windowed sinc, one set of taps for each place between two input samples. */
export class Resampler {
  readonly #step: number;
  readonly #phases: number;
  readonly #half: number;
  readonly #taps: Float32Array[];
  readonly #input: Float32Array;
  #filled = 0;
  #at = 0; // of the next output sample, in input samples × phases

  constructor(inputRate: number) {
    const common = divisor(inputRate, RATE);
    this.#phases = Math.min(RATE / common, MAX_PHASES);
    this.#step = (inputRate / RATE) * this.#phases;
    const cutoff = (PASS * Math.min(inputRate, RATE)) / inputRate;
    this.#half = Math.ceil(LOBES / cutoff);
    this.#taps = Array.from({ length: this.#phases }, (_, phase) => this.#design(phase / this.#phases, cutoff));
    this.#input = new Float32Array(Math.max(inputRate, 4 * this.#half));
    this.reset();
  }

  reset(): void {
    this.#input.fill(0);
    this.#filled = this.#half;
    this.#at = this.#half * this.#phases;
  }

  /** At most a second less half a filter at once. `emit` gets every sample at 16 kHz. */
  push(samples: Float32Array, emit: (sample: number) => void): void {
    this.#input.set(samples, this.#filled);
    this.#filled += samples.length;
    while (true) {
      const whole = Math.floor(this.#at / this.#phases);
      if (whole + this.#half >= this.#filled) break;
      const taps = this.#taps[Math.floor(this.#at - whole * this.#phases)]!;
      const first = whole - this.#half + 1;
      let sum = 0;
      for (let i = 0; i < taps.length; i++) sum += taps[i]! * this.#input[first + i]!;
      emit(sum);
      this.#at += this.#step;
    }
    const done = Math.floor(this.#at / this.#phases) - this.#half;
    this.#input.copyWithin(0, done, this.#filled);
    this.#filled -= done;
    this.#at -= done * this.#phases;
  }

  /** What is still inside comes out with half a filter of silence. */
  flush(emit: (sample: number) => void): void {
    this.push(new Float32Array(this.#half), emit);
    this.reset();
  }

  #design(fraction: number, cutoff: number): Float32Array {
    const taps = new Float32Array(2 * this.#half);
    let sum = 0;
    for (let i = 0; i < taps.length; i++) {
      const distance = i - this.#half + 1 - fraction;
      const place = distance / this.#half;
      const angle = Math.PI * cutoff * distance;
      const window = Math.abs(place) >= 1 ? 0 : bessel(KAISER_BETA * Math.sqrt(1 - place * place)) / bessel(KAISER_BETA);
      taps[i] = (angle === 0 ? 1 : Math.sin(angle) / angle) * window;
      sum += taps[i]!;
    }
    return taps.map((tap) => tap / sum);
  }
}

/** A float as PCM16. */
export function pcm(sample: number): number {
  return Math.round(Math.max(-1, Math.min(1, sample)) * 32_767);
}
