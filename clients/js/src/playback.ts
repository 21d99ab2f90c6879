// Plays translations in a browser, one after another in the order of arrival; silent while a person talks.
import type { TranslationResult } from "./messages.js";
import type { Session } from "./session.js";
import { decode } from "./speech.js";

// Maximum number of waiting translations; older ones are played only on request.
const MAX_QUEUED = 16;
// When the other person begins to talk, a release is followed by another hold.
const RELEASED_AFTER_MS = 50;

/** Of a Translation, or of what was said in a room. */
export interface Playable {
  speech: Uint8Array;
  speechFormat: string;
  message: TranslationResult;
}

type Told = Pick<Session, "playback">;

/** What becomes of one translation. */
export interface PlayEvents {
  /** It can be played, now or again with `replay`. */
  ready?(clip: Clip): void;
  started?(): void;
  ended?(): void;
}

/** A translation that can be played. */
export interface Clip {
  readonly buffer: AudioBuffer;
  readonly result: Playable;
  readonly session: Told;
  readonly on: PlayEvents;
}

export interface PlayerOptions {
  /** A context to share; made here by default. */
  context?: AudioContext;
  /** Where the sound goes, such as a meter; by default the loudspeaker. */
  output?: AudioNode;
  /** Speech that could not be decoded; nothing by default. */
  onError?(error: unknown): void;
}

/** Tells the scheduler what is played (`tts_started`, `tts_play_ended`). */
export class Player {
  readonly context: AudioContext;
  readonly #session: Told;
  readonly #onError: (error: unknown) => void;
  readonly #volume: GainNode;
  // Decoding takes its time, and the order is that of arrival.
  #decoding: Promise<void> = Promise.resolve();
  #queue: Clip[] = [];
  #playing: { source: AudioBufferSourceNode; ended(): void } | null = null;
  #isHeld = false;
  #isMuted = false;

  /** `session` is the one that is told what is played, if `add` does not name another. */
  constructor(session: Told, { context, output, onError }: PlayerOptions = {}) {
    this.#session = session;
    this.#onError = onError ?? (() => {});
    this.context = context ?? new AudioContext();
    this.#volume = this.context.createGain();
    this.#volume.connect(output ?? this.context.destination);
  }

  /** To be called from a touch, a click or a key: browsers stay silent until then. */
  wake(): Promise<void> {
    return this.context.resume();
  }

  /** 0…1; 0 also drops what waits. */
  set volume(loudness: number) {
    this.#volume.gain.value = loudness;
    this.#isMuted = loudness === 0;
    if (this.#isMuted) this.quiet();
  }

  /** Appends a translation. One without speech is passed over, and without sound it is only made ready. */
  add(result: Playable, on: PlayEvents = {}, session: Told = this.#session): Promise<void> {
    if ((this.#isMuted && !on.ready) || result.speech.length === 0) return this.#decoding;
    const decoded = decode(result.speech, result.speechFormat, this.context);
    decoded.catch(() => {});
    this.#decoding = this.#decoding.then(async () => {
      try {
        this.#append({ buffer: await decoded, result, session, on });
      } catch (error) {
        this.#onError(error);
      }
    });
    return this.#decoding;
  }

  /** Plays it on request: now, and instead of what is being played. */
  replay(clip: Clip): void {
    this.#stop();
    this.#queue.unshift(clip);
    this.#next();
  }

  /** A person talks: the current translation is cut off, waiting ones keep waiting. */
  hold(): void {
    this.#isHeld = true;
    this.#stop();
  }

  release(): void {
    this.#isHeld = false;
    setTimeout(() => this.#next(), RELEASED_AFTER_MS);
  }

  /** Drops what is played and what waits. */
  quiet(): void {
    this.#queue = [];
    this.#stop();
  }

  #append(clip: Clip): void {
    clip.on.ready?.(clip);
    if (this.#isMuted) return;
    this.#queue.push(clip);
    if (this.#queue.length > MAX_QUEUED) this.#queue.shift();
    this.#next();
  }

  #next(): void {
    if (this.#playing || this.#isHeld) return;
    const clip = this.#queue.shift();
    if (!clip) return;
    const source = this.context.createBufferSource();
    source.buffer = clip.buffer;
    source.connect(this.#volume);
    const ended = () => {
      this.#playing = null;
      clip.session.playback("tts_play_ended", clip.result.message);
      clip.on.ended?.();
    };
    source.onended = () => {
      ended();
      this.#next();
    };
    this.#playing = { source, ended };
    clip.session.playback("tts_started", clip.result.message);
    clip.on.started?.();
    source.start();
  }

  #stop(): void {
    if (!this.#playing) return;
    const { source, ended } = this.#playing;
    source.onended = null;
    source.stop();
    source.disconnect();
    ended();
  }
}

/** Plays every translation of a session from now on; `player.wake()` belongs into a click. */
export function playResults(session: Session, options: PlayerOptions = {}): Player {
  const player = new Player(session, options);
  session.on("result", (result) => {
    if (result.kind === "translation") void player.add(result);
  });
  return player;
}
