// The own voice, as the others hear it: only while one talks.

export class OwnVoice {
  /** @type {MediaStreamTrack | null} */
  #track = null;
  #isOn = false;
  #onTrack;

  /** @param {(track: MediaStreamTrack | null) => void} onTrack */
  constructor(onTrack) {
    this.#onTrack = onTrack;
  }

  /** @param {MediaStream | null} stream of the microphone; null: it is closed */
  use(stream) {
    this.#track?.stop();
    // What is recognised goes another way, which this must not switch off.
    this.#track = stream?.getAudioTracks()[0]?.clone() ?? null;
    this.enable(this.#isOn);
    this.#onTrack(this.#track);
  }

  /** @param {boolean} isOn */
  enable(isOn) {
    this.#isOn = isOn;
    if (this.#track) this.#track.enabled = isOn;
  }
}
