// Runs on the audio thread: the microphone as 16 kHz PCM16.
import { pcm, RATE, Resampler } from "./resampler.js";

// What the audio thread offers; TypeScript's own library of the DOM leaves it out.
declare const sampleRate: number;
declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}
declare function registerProcessor(name: string, processor: new () => AudioWorkletProcessor): void;

const FRAME_SAMPLES = RATE / 10;

/** While it is on, posts {samples, level} every 100 ms, and {…, isLast} once it was told to stop. */
class Capture extends AudioWorkletProcessor {
  readonly #resampler = new Resampler(sampleRate);
  readonly #frame = new Int16Array(FRAME_SAMPLES);
  #count = 0;
  #energy = 0;
  #isOn = false;
  #isClosed = false;

  constructor() {
    super();
    this.port.onmessage = ({ data: word }: MessageEvent) => {
      if (word === "start") this.#start();
      else this.#stop();
      this.#isClosed = word === "close";
    };
  }

  process([channels = []]: Float32Array[][]): boolean {
    if (this.#isOn && channels.length) this.#resampler.push(mono(channels), this.#emit);
    return !this.#isClosed;
  }

  #start(): void {
    this.#resampler.reset();
    this.#count = this.#energy = 0;
    this.#isOn = true;
  }

  #stop(): void {
    if (!this.#isOn) return;
    this.#isOn = false;
    this.#resampler.flush(this.#emit);
    this.#post(true);
  }

  readonly #emit = (sample: number): void => {
    this.#frame[this.#count++] = pcm(sample);
    this.#energy += sample * sample;
    if (this.#count === FRAME_SAMPLES) this.#post(false);
  };

  #post(isLast: boolean): void {
    const samples = this.#frame.slice(0, this.#count);
    const level = this.#count ? Math.sqrt(this.#energy / this.#count) : 0;
    this.#count = this.#energy = 0;
    this.port.postMessage({ samples, level, isLast }, [samples.buffer]);
  }
}

function mono(channels: Float32Array[]): Float32Array {
  if (channels.length === 1) return channels[0]!;
  return channels[0]!.map((_, i) => channels.reduce((sum, channel) => sum + channel[i]!, 0) / channels.length);
}

registerProcessor("lingua-capture", Capture);
