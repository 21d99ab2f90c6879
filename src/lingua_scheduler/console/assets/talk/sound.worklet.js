// Runs on the audio thread: the microphone as 16 kHz PCM16, and how loud the loudspeaker is.

const RATE = 16_000;
const FRAME_SAMPLES = RATE / 10;
// Half the filter's length, in periods of its cutoff: the steeper, the longer.
const LOBES = 24;
// The passband ends here, as a part of half the lower rate; what is above folds back unless it is taken out.
const PASS = 0.9;
const KAISER_BETA = 8;
const MAX_PHASES = 4_096;

/**
 * The zeroth modified Bessel function, by its series.
 * @param {number} x
 */
function bessel(x) {
  let sum = 1;
  for (let term = 1, k = 1; term > 1e-12 * sum; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}

/**
 * @param {number} a
 * @param {number} b
 * @returns {number}
 */
function divisor(a, b) {
  return b === 0 ? a : divisor(b, a % b);
}

/** A polyphase low-pass filter: a Kaiser-windowed sinc, one set of taps for each place between two input samples. */
class Resampler {
  #step;
  #phases;
  #half;
  #taps;
  #input;
  #filled = 0;
  #at = 0; // of the next output sample, in input samples × phases

  /** @param {number} inputRate */
  constructor(inputRate) {
    const common = divisor(inputRate, RATE);
    this.#phases = Math.min(RATE / common, MAX_PHASES);
    this.#step = (inputRate / RATE) * this.#phases;
    const cutoff = (PASS * Math.min(inputRate, RATE)) / inputRate;
    this.#half = Math.ceil(LOBES / cutoff);
    this.#taps = Array.from({ length: this.#phases }, (_, phase) => this.#design(phase / this.#phases, cutoff));
    this.#input = new Float32Array(inputRate);
    this.reset();
  }

  reset() {
    this.#input.fill(0);
    this.#filled = this.#half;
    this.#at = this.#half * this.#phases;
  }

  /**
   * @param {number} fraction
   * @param {number} cutoff
   */
  #design(fraction, cutoff) {
    const taps = new Float32Array(2 * this.#half);
    let sum = 0;
    for (let i = 0; i < taps.length; i++) {
      const distance = i - this.#half + 1 - fraction;
      const place = distance / this.#half;
      const angle = Math.PI * cutoff * distance;
      const window = Math.abs(place) >= 1 ? 0 : bessel(KAISER_BETA * Math.sqrt(1 - place * place)) / bessel(KAISER_BETA);
      taps[i] = (angle === 0 ? 1 : Math.sin(angle) / angle) * window;
      sum += taps[i];
    }
    return taps.map((tap) => tap / sum);
  }

  /**
   * `emit` gets every sample at 16 kHz.
   * @param {Float32Array} samples
   * @param {(sample: number) => void} emit
   */
  push(samples, emit) {
    this.#input.set(samples, this.#filled);
    this.#filled += samples.length;
    while (true) {
      const whole = Math.floor(this.#at / this.#phases);
      if (whole + this.#half >= this.#filled) break;
      const taps = this.#taps[Math.floor(this.#at - whole * this.#phases)];
      const first = whole - this.#half + 1;
      let sum = 0;
      for (let i = 0; i < taps.length; i++) sum += taps[i] * this.#input[first + i];
      emit(sum);
      this.#at += this.#step;
    }
    const done = Math.floor(this.#at / this.#phases) - this.#half;
    this.#input.copyWithin(0, done, this.#filled);
    this.#filled -= done;
    this.#at -= done * this.#phases;
  }

  /**
   * What is still inside comes out with half a filter of silence.
   * @param {(sample: number) => void} emit
   */
  flush(emit) {
    this.push(new Float32Array(this.#half), emit);
    this.reset();
  }
}

/** While it is on, posts {samples, level} every 100 ms, and {…, isLast} once it was told to stop. */
class Microphone extends AudioWorkletProcessor {
  #resampler = new Resampler(sampleRate);
  #frame = new Int16Array(FRAME_SAMPLES);
  #count = 0;
  #energy = 0;
  #isOn = false;

  constructor() {
    super();
    this.port.onmessage = (/** @type {MessageEvent} */ { data }) => (data === "start" ? this.#start() : this.#stop());
  }

  /** @param {Float32Array[][]} inputs */
  process([channels]) {
    if (this.#isOn && channels.length) this.#resampler.push(mono(channels), this.#emit);
    return true;
  }

  #start() {
    this.#resampler.reset();
    this.#count = this.#energy = 0;
    this.#isOn = true;
  }

  #stop() {
    if (!this.#isOn) return;
    this.#isOn = false;
    this.#resampler.flush(this.#emit);
    this.#post(true);
  }

  #emit = (/** @type {number} */ sample) => {
    const bounded = Math.max(-1, Math.min(1, sample));
    this.#frame[this.#count++] = Math.round(bounded * 32_767);
    this.#energy += bounded * bounded;
    if (this.#count === FRAME_SAMPLES) this.#post(false);
  };

  /** @param {boolean} isLast */
  #post(isLast) {
    const samples = this.#frame.slice(0, this.#count);
    const level = this.#count ? Math.sqrt(this.#energy / this.#count) : 0;
    this.#count = this.#energy = 0;
    this.port.postMessage({ samples, level, isLast }, [samples.buffer]);
  }
}

/** @param {Float32Array[]} channels */
function mono(channels) {
  if (channels.length === 1) return channels[0];
  return channels[0].map((_, i) => channels.reduce((sum, channel) => sum + channel[i], 0) / channels.length);
}

// Quieter than this is silence: a bit more than the rounding of 16-bit samples.
const SILENCE = 0.001;

/** Lets sound through and posts what reached the loudspeaker: {seconds that were not silent, peak}. */
class Loudness extends AudioWorkletProcessor {
  #blocks = 0;
  #samples = 0;
  #peak = 0;

  /**
   * @param {Float32Array[][]} inputs
   * @param {Float32Array[][]} outputs
   */
  process([channels], [output]) {
    let loudest = 0;
    channels.forEach((channel, i) => {
      output[i].set(channel);
      for (const sample of channel) loudest = Math.max(loudest, Math.abs(sample));
    });
    if (loudest > SILENCE) this.#samples += channels[0].length;
    this.#peak = Math.max(this.#peak, loudest);
    if (++this.#blocks * 128 >= sampleRate / 10) {
      this.port.postMessage({ seconds: this.#samples / sampleRate, peak: this.#peak });
      this.#blocks = this.#samples = this.#peak = 0;
    }
    return true;
  }
}

registerProcessor("microphone", Microphone);
registerProcessor("loudness", Loudness);
