// Built from clients/js by `make pages`. Do not edit.

// src/resampler.ts
var RATE = 16e3;
var LOBES = 24;
var PASS = 0.9;
var KAISER_BETA = 8;
var MAX_PHASES = 4096;
function bessel(x) {
  let sum = 1;
  for (let term = 1, k = 1; term > 1e-12 * sum; k++) {
    term *= (x / (2 * k)) ** 2;
    sum += term;
  }
  return sum;
}
function divisor(a, b) {
  return b === 0 ? a : divisor(b, a % b);
}
var Resampler = class {
  #step;
  #phases;
  #half;
  #taps;
  #input;
  #filled = 0;
  #at = 0;
  // of the next output sample, in input samples × phases
  constructor(inputRate) {
    const common = divisor(inputRate, RATE);
    this.#phases = Math.min(RATE / common, MAX_PHASES);
    this.#step = inputRate / RATE * this.#phases;
    const cutoff = PASS * Math.min(inputRate, RATE) / inputRate;
    this.#half = Math.ceil(LOBES / cutoff);
    this.#taps = Array.from({ length: this.#phases }, (_, phase) => this.#design(phase / this.#phases, cutoff));
    this.#input = new Float32Array(Math.max(inputRate, 4 * this.#half));
    this.reset();
  }
  reset() {
    this.#input.fill(0);
    this.#filled = this.#half;
    this.#at = this.#half * this.#phases;
  }
  /** At most a second less half a filter at once. `emit` gets every sample at 16 kHz. */
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
  /** What is still inside comes out with half a filter of silence. */
  flush(emit) {
    this.push(new Float32Array(this.#half), emit);
    this.reset();
  }
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
};
function pcm(sample) {
  return Math.round(Math.max(-1, Math.min(1, sample)) * 32767);
}

// src/sound.worklet.ts
var FRAME_SAMPLES = RATE / 10;
var Capture = class extends AudioWorkletProcessor {
  #resampler = new Resampler(sampleRate);
  #frame = new Int16Array(FRAME_SAMPLES);
  #count = 0;
  #energy = 0;
  #isOn = false;
  #isClosed = false;
  constructor() {
    super();
    this.port.onmessage = ({ data: word }) => {
      if (word === "start") this.#start();
      else this.#stop();
      this.#isClosed = word === "close";
    };
  }
  process([channels = []]) {
    if (this.#isOn && channels.length) this.#resampler.push(mono(channels), this.#emit);
    return !this.#isClosed;
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
  #emit = (sample) => {
    this.#frame[this.#count++] = pcm(sample);
    this.#energy += sample * sample;
    if (this.#count === FRAME_SAMPLES) this.#post(false);
  };
  #post(isLast) {
    const samples = this.#frame.slice(0, this.#count);
    const level = this.#count ? Math.sqrt(this.#energy / this.#count) : 0;
    this.#count = this.#energy = 0;
    this.port.postMessage({ samples, level, isLast }, [samples.buffer]);
  }
};
function mono(channels) {
  if (channels.length === 1) return channels[0];
  return channels[0].map((_, i) => channels.reduce((sum, channel) => sum + channel[i], 0) / channels.length);
}
registerProcessor("lingua-capture", Capture);
