// The microphone: opened at the first press, kept for a moment between presses, closed when nobody talks.

const KEEP_OPEN_MS = 30_000;
const WISHES = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };

const REASONS = {
  NotAllowedError: "denied",
  SecurityError: "denied",
  NotFoundError: "none",
  OverconstrainedError: "none",
  NotReadableError: "taken",
  AbortError: "taken",
};

/** Why there is no microphone: `reason` is insecure, denied, none, taken or failed. */
export class NoMicrophone extends Error {
  constructor(reason) {
    super(reason);
    this.reason = reason;
  }
}

/** Whether the browser gives this page a microphone at all. */
export function isPossible() {
  return window.isSecureContext && Boolean(navigator.mediaDevices?.getUserMedia);
}

export class Microphone {
  #context;
  #stream = null;
  #source = null;
  #worklet = null;
  #closeTimer = 0;
  #isOn = false;
  // Who gets the frames; the last one of a press comes when the next press may have begun.
  #takers = [];

  /** `context` has loaded sound.worklet.js. */
  constructor(context) {
    this.#context = context;
    document.addEventListener("visibilitychange", () => document.hidden && !this.#isOn && this.#closeSoon(0));
  }

  /** Asks the person the first time. Throws NoMicrophone. */
  async open() {
    clearTimeout(this.#closeTimer);
    if (this.#stream?.getAudioTracks().some((track) => track.readyState === "live")) return;
    this.#close();
    if (!isPossible()) throw new NoMicrophone("insecure");
    try {
      this.#stream = await navigator.mediaDevices.getUserMedia({ audio: WISHES });
    } catch (error) {
      throw new NoMicrophone(REASONS[error.name] ?? "failed");
    }
    this.#source = this.#context.createMediaStreamSource(this.#stream);
    this.#worklet ??= this.#make();
    this.#source.connect(this.#worklet);
  }

  /** `onFrame` gets {samples: Int16Array of 100 ms, level: 0…1, isLast}; the last one comes soon after `stop`. */
  start(onFrame) {
    this.stop();
    clearTimeout(this.#closeTimer);
    this.#takers.push(onFrame);
    this.#isOn = true;
    this.#worklet.port.postMessage("start");
  }

  stop() {
    if (this.#isOn) this.#worklet.port.postMessage("stop");
    this.#isOn = false;
    this.#closeSoon(KEEP_OPEN_MS);
  }

  #make() {
    const worklet = new AudioWorkletNode(this.#context, "microphone", { numberOfOutputs: 0 });
    worklet.port.onmessage = ({ data }) => {
      this.#takers[0]?.(data);
      if (data.isLast) this.#takers.shift();
    };
    return worklet;
  }

  #closeSoon(ms) {
    clearTimeout(this.#closeTimer);
    this.#closeTimer = setTimeout(() => this.#close(), ms);
  }

  #close() {
    this.#source?.disconnect();
    this.#source = null;
    this.#stream?.getTracks().forEach((track) => track.stop());
    this.#stream = null;
  }
}
