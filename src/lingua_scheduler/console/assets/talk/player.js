// Plays translations one after another, in the order in which they came; is silent while somebody talks.

// More than this waits for nobody: the oldest are not played by themselves any more, but still on request.
const MAX_QUEUED = 16;

export class Player {
  #context;
  #volume;
  #queue = [];
  #playing = null;
  #isHeld = false;
  #isMuted = false;

  /** `onLoudness` hears {seconds, peak} of what reached the loudspeaker, ten times a second. */
  constructor(context, onLoudness) {
    this.#context = context;
    this.#volume = context.createGain();
    const loudness = new AudioWorkletNode(context, "loudness");
    loudness.port.onmessage = ({ data }) => onLoudness(data);
    this.#volume.connect(loudness).connect(context.destination);
  }

  set isMuted(muted) {
    this.#isMuted = muted;
    this.#volume.gain.value = muted ? 0 : 1;
    if (muted) this.quiet();
  }

  /** A clip is {buffer, onStart, onEnd}. */
  add(clip) {
    if (this.#isMuted) return;
    this.#queue.push(clip);
    if (this.#queue.length > MAX_QUEUED) this.#queue.shift();
    this.#next();
  }

  /** Somebody asks for it: now, whatever else is being played. */
  replay(clip) {
    this.#stop();
    this.#queue.unshift(clip);
    this.#next();
  }

  /** Somebody talks: what is being played is cut off, what waits goes on waiting. */
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
    if (this.#playing || this.#isHeld || !this.#queue.length) return;
    const clip = this.#queue.shift();
    const source = this.#context.createBufferSource();
    source.buffer = clip.buffer;
    source.connect(this.#volume);
    source.onended = () => {
      this.#playing = null;
      clip.onEnd();
      this.#next();
    };
    this.#playing = source;
    clip.onStart();
    source.start();
  }

  #stop() {
    const source = this.#playing;
    if (!source) return;
    this.#playing = null;
    const { onended } = source;
    source.onended = null;
    source.stop();
    source.disconnect();
    // As if it had come to its end; the next one only starts when it may.
    const wasHeld = this.#isHeld;
    this.#isHeld = true;
    onended();
    this.#isHeld = wasHeld;
  }
}
