// Runs on the audio thread: how loud the loudspeaker is.

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

registerProcessor("loudness", Loudness);
