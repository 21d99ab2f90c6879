// The microphone: opened at the first press, kept for a moment between presses, closed after a pause.

/** @import {Frame} from "./gate.js" */

const KEEP_OPEN_MS = 30_000;
const WISHES = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };

/** @typedef {"insecure" | "denied" | "none" | "taken" | "failed"} Reason */

/** @type {Record<string, Reason>} */
const REASONS = {
  NotAllowedError: "denied",
  SecurityError: "denied",
  NotFoundError: "none",
  OverconstrainedError: "none",
  NotReadableError: "taken",
  AbortError: "taken",
};

/** Why there is no microphone. */
export class NoMicrophone extends Error {
  /** @param {Reason} reason */
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
  /** @type {MediaStream | null} */
  #stream = null;
  /** @type {MediaStreamAudioSourceNode | null} */
  #source = null;
  /** @type {AudioWorkletNode | null} */
  #worklet = null;
  /** @type {number | undefined} */
  #closeTimer;
  #isOn = false;
  // Who gets the frames; the last one of a press comes when the next press may have begun.
  /** @type {((frame: Frame) => void)[]} */
  #takers = [];

  /** @param {AudioContext} context has loaded sound.worklet.js */
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
      throw new NoMicrophone(REASONS[error instanceof DOMException ? error.name : ""] ?? "failed");
    }
    this.#source = this.#context.createMediaStreamSource(this.#stream);
    this.#worklet ??= this.#make();
    this.#source.connect(this.#worklet);
  }

  /**
   * The last frame comes soon after `stop`.
   * @param {(frame: Frame) => void} onFrame
   */
  start(onFrame) {
    this.stop();
    clearTimeout(this.#closeTimer);
    this.#takers.push(onFrame);
    this.#isOn = true;
    this.#worklet?.port.postMessage("start");
  }

  stop() {
    if (this.#isOn) this.#worklet?.port.postMessage("stop");
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

  /** @param {number} ms */
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
