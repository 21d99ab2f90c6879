// Plays translations one after another, in the order of arrival; silent while a person talks.

// Maximum number of waiting translations; older ones are played only on request.
const MAX_QUEUED = 16;

/** @typedef {{buffer: AudioBuffer, onStart(): void, onEnd(): void}} Clip */

export class Player {
  #context;
  #volume;
  /** @type {Clip[]} */
  #queue = [];
  /** @type {{source: AudioBufferSourceNode, ended(): void} | null} */
  #playing = null;
  #isHeld = false;
  #isMuted = false;

  /**
   * `onLoudness` hears what reached the loudspeaker, ten times a second.
   * @param {AudioContext} context
   * @param {(loudness: {seconds: number, peak: number}) => void} onLoudness
   */
  constructor(context, onLoudness) {
    this.#context = context;
    this.#volume = context.createGain();
    const loudness = new AudioWorkletNode(context, "loudness");
    loudness.port.onmessage = ({ data }) => onLoudness(data);
    this.#volume.connect(loudness).connect(context.destination);
  }

  /** @param {boolean} muted */
  set isMuted(muted) {
    this.#isMuted = muted;
    this.#volume.gain.value = muted ? 0 : 1;
    if (muted) this.quiet();
  }

  /** @param {Clip} clip */
  add(clip) {
    if (this.#isMuted) return;
    this.#queue.push(clip);
    if (this.#queue.length > MAX_QUEUED) this.#queue.shift();
    this.#next();
  }

  /**
   * Play it on request: now, interrupting the current one.
   * @param {Clip} clip
   */
  replay(clip) {
    this.#stop();
    this.#queue.unshift(clip);
    this.#next();
  }

  /** A person talks: the current translation is cut off, waiting ones keep waiting. */
  hold() {
    this.#isHeld = true;
    this.#stop();
  }

  release() {
    this.#isHeld = false;
    // Not at once: when the other person begins to talk, this is followed by another hold.
    setTimeout(() => this.#next(), 50);
  }

  quiet() {
    this.#queue = [];
    this.#stop();
  }

  #next() {
    if (this.#playing || this.#isHeld) return;
    const clip = this.#queue.shift();
    if (!clip) return;
    const source = this.#context.createBufferSource();
    source.buffer = clip.buffer;
    source.connect(this.#volume);
    const ended = () => {
      this.#playing = null;
      clip.onEnd();
      this.#next();
    };
    source.onended = ended;
    this.#playing = { source, ended };
    clip.onStart();
    source.start();
  }

  #stop() {
    if (!this.#playing) return;
    const { source, ended } = this.#playing;
    this.#playing = null;
    source.onended = null;
    source.stop();
    source.disconnect();
    // As if it had come to its end; the next one only starts when it may.
    const wasHeld = this.#isHeld;
    this.#isHeld = true;
    ended();
    this.#isHeld = wasHeld;
  }
}
