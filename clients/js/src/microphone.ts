// The microphone of a browser, as 16 kHz speech for a session.
import { LinguaError } from "./errors.js";
import { type Frame, Gate } from "./gate.js";
import type { Session } from "./session.js";

export { Gate, type Frame } from "./gate.js";

const WISHES = { echoCancellation: true, noiseSuppression: true, autoGainControl: true, channelCount: 1 };
const REASONS: Record<string, string> = {
  NotAllowedError: "DENIED",
  SecurityError: "DENIED",
  NotFoundError: "NONE",
  OverconstrainedError: "NONE",
  NotReadableError: "TAKEN",
  AbortError: "TAKEN",
};

/** `code`: INSECURE (the page is not https or localhost), DENIED, NONE (or it was unplugged), TAKEN (by another program) or
 * FAILED. */
export class NoMicrophone extends LinguaError {}

type OnLost = (error: NoMicrophone) => void;

export interface MicrophoneOptions {
  /** A context to share, such as that of a Player; made here by default. */
  context?: AudioContext;
  /** Where `sound.worklet.js` of this package is served, if a bundler moved it. */
  worklet?: string | URL;
  /** More wishes about the microphone, such as `{ deviceId }`. */
  constraints?: MediaTrackConstraints;
}

export interface TalkOptions {
  /** `voice`: sentences are detected, silence is not sent. `all`: everything is sent until `stop`, which ends the
   * sentence, as for a button that is held down. */
  detect?: "voice" | "all";
  /** How loud it is, 0…1, ten times a second; and whether that is speech. */
  onLevel?(level: number, isSpeech: boolean): void;
  /** Speech could not be sent: BufferFull, or the session has ended. NoMicrophone: it was unplugged, and nothing more is heard. */
  onError?(error: unknown): void;
}

/** Whether the browser gives this page a microphone at all. */
export function isMicrophonePossible(): boolean {
  return globalThis.isSecureContext && Boolean(navigator.mediaDevices?.getUserMedia);
}

/** Loads the audio worklet before it is needed, so that the first opening takes less time. */
export function prepareMicrophone({ context, worklet }: MicrophoneOptions & { context: AudioContext }): Promise<void> {
  return context.audioWorklet.addModule(worklet ?? new URL("./sound.worklet.js", import.meta.url));
}

/** Asks the person the first time; call it after a touch or a click. Throws NoMicrophone. */
export async function openMicrophone(options: MicrophoneOptions = {}): Promise<Microphone> {
  if (!isMicrophonePossible()) throw new NoMicrophone("INSECURE", "a microphone needs https, or localhost");
  const stream = await listen(options.constraints);
  const context = options.context ?? new AudioContext();
  try {
    await prepareMicrophone({ ...options, context });
    const resumed = context.resume();
    // A shared one may wait for a touch.
    if (!options.context) await resumed;
  } catch (cause) {
    stream.getTracks().forEach((track) => track.stop());
    throw new NoMicrophone("FAILED", "the audio worklet cannot be loaded; see the option worklet", { cause });
  }
  return new Microphone(context, stream, !options.context);
}

async function listen(constraints: MediaTrackConstraints = {}): Promise<MediaStream> {
  try {
    return await navigator.mediaDevices.getUserMedia({ audio: { ...WISHES, ...constraints } });
  } catch (cause) {
    const code = REASONS[cause instanceof DOMException ? cause.name : ""] ?? "FAILED";
    throw new NoMicrophone(code, `there is no microphone: ${String(cause)}`, { cause });
  }
}

export class Microphone {
  readonly #context: AudioContext;
  readonly stream: MediaStream;
  readonly #isOwnContext: boolean;
  readonly #source: MediaStreamAudioSourceNode;
  readonly #worklet: AudioWorkletNode;
  #isOn = false;
  // Who gets the frames; the last one of a stretch comes when the next may have begun.
  readonly #takers: ((frame: Frame) => void)[] = [];
  #onLost: OnLost | undefined;

  /** Use `openMicrophone`. */
  constructor(context: AudioContext, stream: MediaStream, isOwnContext: boolean) {
    this.#context = context;
    this.stream = stream;
    this.#isOwnContext = isOwnContext;
    this.#worklet = new AudioWorkletNode(context, "lingua-capture", { numberOfOutputs: 0 });
    this.#worklet.port.onmessage = ({ data: frame }: MessageEvent<Frame>) => {
      this.#takers[0]?.(frame);
      if (frame.isLast) this.#takers.shift();
    };
    this.#source = context.createMediaStreamSource(stream);
    this.#source.connect(this.#worklet);
    // Not after `close`.
    for (const track of stream.getAudioTracks()) track.addEventListener("ended", () => this.#lost());
  }

  /** False once it was closed, unplugged or taken back by the person. */
  get isLive(): boolean {
    return this.stream.getAudioTracks().some((track) => track.readyState === "live");
  }

  get isOn(): boolean {
    return this.#isOn;
  }

  /** Sends what it hears to a session, until `stop`. */
  talk(session: Pick<Session, "send">, { detect = "voice", onLevel, onError }: TalkOptions = {}): void {
    const gate = new Gate();
    const send = (samples: Int16Array, isFinal: boolean) => session.send(samples, isFinal).catch((error: unknown) => onError?.(error));
    this.start((frame) => {
      const passed = detect === "voice" ? gate.pass(frame) : [{ samples: frame.samples, isFinal: frame.isLast }];
      onLevel?.(frame.level, detect === "all" || gate.isSpeech);
      for (const { samples, isFinal } of passed) void send(samples, isFinal);
    }, onError);
  }

  /** Every 100 ms of sound; the last one comes soon after `stop`, or after it was unplugged, which `onLost` is told. */
  start(onFrame: (frame: Frame) => void, onLost?: OnLost): void {
    this.stop();
    this.#takers.push(onFrame);
    this.#onLost = onLost;
    this.#isOn = true;
    this.#worklet.port.postMessage("start");
  }

  stop(): void {
    if (this.#isOn) this.#worklet.port.postMessage("stop");
    this.#isOn = false;
  }

  #lost(): void {
    if (!this.#isOn) return;
    this.stop();
    this.#onLost?.(new NoMicrophone("NONE", "the microphone was unplugged, or is not allowed any more"));
  }

  /** Turns it off; the browser no longer shows that it is used. */
  async close(): Promise<void> {
    this.stop();
    this.#source.disconnect();
    // It ends with the frames that it has.
    this.#worklet.port.postMessage("close");
    this.stream.getTracks().forEach((track) => track.stop());
    if (this.#isOwnContext) await this.#context.close();
  }
}

const KEEP_OPEN_MS = 30_000;

/** For a button that is pressed again and again: the microphone is opened at the first press, kept for half a minute between
 * presses, and closed then, or when the page is hidden. */
export class KeptMicrophone {
  readonly #options: MicrophoneOptions & { context: AudioContext };
  readonly #onStream: (stream: MediaStream | null) => void;
  #microphone: Microphone | null = null;
  #opening: Promise<Microphone> | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** `onStream` hears when it is opened, and when it is closed (null). */
  constructor(options: MicrophoneOptions & { context: AudioContext }, onStream: (stream: MediaStream | null) => void = () => {}) {
    this.#options = options;
    this.#onStream = onStream;
    document.addEventListener("visibilitychange", () => document.hidden && !this.#microphone?.isOn && this.#closeSoon(0));
  }

  /** Asks the person the first time. Throws NoMicrophone. */
  async open(): Promise<void> {
    clearTimeout(this.#timer);
    if (this.#microphone?.isLive) return;
    this.#close();
    this.#opening ??= this.#open();
    await this.#opening;
  }

  /** Every 100 ms of sound; the last one comes soon after `stop`. */
  start(onFrame: (frame: Frame) => void, onLost?: OnLost): void {
    clearTimeout(this.#timer);
    this.#microphone?.start(onFrame, onLost);
  }

  stop(): void {
    this.#microphone?.stop();
    this.#closeSoon(KEEP_OPEN_MS);
  }

  async #open(): Promise<Microphone> {
    try {
      this.#microphone = await openMicrophone(this.#options);
      this.#onStream(this.#microphone.stream);
      return this.#microphone;
    } finally {
      this.#opening = null;
    }
  }

  #closeSoon(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#close(), ms);
  }

  #close(): void {
    if (!this.#microphone) return;
    void this.#microphone.close();
    this.#microphone = null;
    this.#onStream(null);
  }
}
