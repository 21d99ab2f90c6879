// A session: speech goes in, translations come out, and it carries on after a broken connection.
import { Announced } from "./announced.js";
import { type LinguaError, SessionFailed } from "./errors.js";
import { Emitter, Inbox, Signal } from "./events.js";
import { initOf, type Played, playbackOf, type SessionWishes, type UtteranceOptions, utteranceOf } from "./first-words.js";
import { type Audio, bytesOf } from "./frames.js";
import { Link, type LinkOptions } from "./link.js";
import type { ClientMessage, ErrorMessage, ServerMessage, SessionInit, SessionInitAck, TranslationResult, UiEvent } from "./messages.js";
import { Outgoing } from "./outgoing.js";
import { Received } from "./received.js";
import { type Outcome, type Partial as PartialText, partialOf, type Progress, progressOf, type Result, resultOf } from "./results.js";
import { Sender } from "./sender.js";
import type { SessionSocket } from "./socket.js";
import { Turns } from "./turns.js";

const MAX_UNREAD = 1_000;
const OVERLOADED_PAUSE_MS = 1_000;
// Half a minute of PCM16: older live speech is not worth keeping back.
const MAX_LIVE_BYTES = 960_000;
// Audio was not taken, or the session is held elsewhere. To come back with the token tells which chunk is missing.
const COME_BACK = new Set(["NODE_OVERLOADED", "INVALID_SESSION", "SESSION_CLOSED"]);

export interface ConnectOptions extends LinkOptions, SessionWishes {}

/** `away`: the connection is lost, and being restored. `paused`: the scheduler has asked to wait. */
export type SessionState = "connecting" | "open" | "paused" | "away" | "ended";

export interface SessionEvents {
  result: Result;
  partial: PartialText;
  progress: Progress;
  state: SessionState;
  /** The session goes on after a break. */
  resumed: { nextSeq: number; nextIndex: number };
  /** The scheduler did not know the session any more, and a new one has begun. What had no outcome was said again, but for
   * so many stretches of speech that were too old. */
  restarted: { lost: number };
  /** All that was said has its outcome, and more was not made of it. Some seconds after the last of it. */
  settled: null;
  /** Null: everything has its outcome, or the session was closed here. */
  ended: LinguaError | null;
}

/** What is built on a session, such as a room. */
export interface Extension {
  /** What is added to the first message on each connection. */
  greeting(): Partial<SessionInit>;
  opened(isResumed: boolean): void;
  /** Whether it takes the message. */
  take(message: ServerMessage): boolean;
  /** Own outcomes come once; those of other speakers as they arrive. */
  outcome(message: Outcome, isOwn: boolean): boolean;
  over(error: LinguaError | null): void;
}

export class Session implements AsyncIterable<Result | PartialText> {
  readonly #init: SessionInit;
  readonly #link: Link;
  readonly #events = new Emitter<SessionEvents>();
  readonly #inbox = new Inbox<Result | PartialText>(MAX_UNREAD);
  readonly #outgoing = new Outgoing();
  readonly #sender: Sender;
  readonly #changed = new Signal();
  #received = new Received();
  #extension: Extension | null = null;
  #nextIndex = 0;
  readonly #announced = new Announced();
  readonly #turns = new Turns();
  #isIterated = false;
  #isFinishing = false;
  // Whether this connection was told so.
  #isCloseSent = false;
  #failure: LinguaError | null = null;
  #state: SessionState = "connecting";
  #sessionId = "";
  /** Why no connected node serves these languages, when the session was opened; empty if one does. */
  unserved = "";
  timesResumed = 0;

  /** Use `connect`, which waits until it is open. */
  constructor(options: ConnectOptions) {
    this.#init = initOf(options);
    this.#sender = new Sender(this.#outgoing, { resumed: () => this.#setState("open"), allSent: () => this.#allSent() });
    this.#link = new Link(options, {
      greet: () => ({ ...this.#init, ...(this.#init.resume_token ? this.#received.greeting() : {}), ...this.#extension?.greeting() }),
      opened: (socket, ack) => this.#opened(socket, ack),
      heard: (message) => this.#heard(message),
      away: () => this.#away(),
      mayReturn: () => this.#inbox.hasRoom(),
      isWaiting: (isAlive) => this.#isWaiting(isAlive),
      failed: (error) => this.#end(error),
    });
  }

  get sessionId(): string {
    return this.#sessionId;
  }

  get state(): SessionState {
    return this.#state;
  }

  /** Calls a function at each event; returns a function that ends that. */
  on<Name extends keyof SessionEvents>(name: Name, listener: (event: SessionEvents[Name]) => void): () => void {
    return this.#events.on(name, listener);
  }

  /** Until it is acknowledged. Throws why it was not. */
  async opened(): Promise<this> {
    await this.#changed.until(() => this.#sessionId !== "" || this.#state === "ended");
    if (this.#failure) throw this.#failure;
    return this;
  }

  /** A stretch of audio, PCM16 or framed Opus, 16 kHz mono; about 200 ms at a time is good. `isFinal`: a sentence ends.
   * Waits while the scheduler asks for a pause, and while two minutes wait to be sent. Throws LinguaError. */
  send(audio: Audio, isFinal = false): Promise<void> {
    const bytes = bytesOf(audio);
    return this.#inTurn(() => this.#add(bytes, isFinal), () => !this.#outgoing.isFull);
  }

  /** Live speech, which cannot wait: false if it is not taken, because half a minute or a call of `send` waits already. A final
   * is taken all the same. */
  trySend(audio: Audio, isFinal = false): boolean {
    const isFull = this.#turns.areWaiting || this.#outgoing.unsentBytes >= MAX_LIVE_BYTES;
    if (this.#isClosed || (isFull && !isFinal)) return false;
    this.#add(bytesOf(audio), isFinal);
    this.#sender.pump();
    return true;
  }

  /** The person has finished a sentence. */
  final(): Promise<void> {
    return this.send(new Uint8Array(), true);
  }

  /** Sends chunks as they come, then a final; an empty one says that a sentence has ended. */
  async stream(chunks: AsyncIterable<Audio> | Iterable<Audio>): Promise<void> {
    for await (const chunk of chunks) await this.send(chunk, chunk.byteLength === 0);
    await this.final();
  }

  /** A whole utterance at once; its number is returned. Waits while too many others have no outcome yet. */
  utterance(audio: Audio, options: UtteranceOptions = {}): Promise<number> {
    const bytes = bytesOf(audio);
    const say = (): number => {
      const index = this.#nextIndex++;
      this.#announced.isUnsettled = true;
      this.#outgoing.addUtterance(utteranceOf(this.#init, index, bytes, options));
      return index;
    };
    return this.#inTurn(say, () => !this.#outgoing.hasManyUnanswered);
  }

  /** Nothing more will be said: iteration ends when everything has its outcome. */
  finish(): Promise<void> {
    return this.#inTurn(() => void (this.#isFinishing = true), () => true);
  }

  /** Ends the session now; what has no outcome yet will have none. */
  close(): void {
    this.#end(null);
  }

  /** Tells the scheduler that a translation begins to be played, or has ended: its groups depend on it. */
  playback(type: Played, result: Pick<TranslationResult, "trace_id" | "group_id">): void {
    this.post(playbackOf(type, this.#sessionId, result));
  }

  /** The network is back, or the page is visible again: a lost connection is tried at once. */
  hurry(): void {
    this.#link.hurry();
  }

  /** For extensions: into a broken connection nothing is sent, and the answer is false. */
  post(message: ClientMessage): boolean {
    return this.#link.post(message);
  }

  /** Of the session that begins if this one is lost: one that goes on keeps what it was opened with. */
  wish(init: Partial<SessionInit>): void {
    Object.assign(this.#init, init);
  }

  /** Another one takes the place of the former. */
  use(extension: Extension): void {
    this.#extension = extension;
  }

  [Symbol.asyncIterator](): AsyncIterator<Result | PartialText> {
    this.#isIterated = true;
    return this.#inbox;
  }

  /** Calls take effect in their order, each when there is room. */
  #inTurn<Value>(act: () => Value, hasRoom: () => boolean): Promise<Value> {
    const mayAct = () => this.#changed.until(() => this.#isClosed || (!this.#sender.isPaused && hasRoom()));
    return this.#turns.take(mayAct, () => {
      if (this.#isClosed) throw this.#failure ?? new SessionFailed("SESSION_CLOSED", "the session has ended; open another one");
      const value = act();
      this.#sender.pump();
      return value;
    });
  }

  #add(audio: Uint8Array, isFinal: boolean): void {
    this.#announced.isUnsettled = true;
    this.#outgoing.add(audio, isFinal);
  }

  get #isClosed(): boolean {
    return this.#isFinishing || this.#state === "ended";
  }

  #allSent(): void {
    this.#changed.tell();
    if (!this.#isFinishing || this.#isCloseSent) return;
    this.#isCloseSent = true;
    this.post({ type: "session_close", session_id: this.#sessionId, reason: "done" });
  }

  #opened(socket: SessionSocket, ack: SessionInitAck): void {
    const isSecond = this.#sessionId !== "";
    this.#sessionId = ack.session_id;
    this.#init.resume_token = ack.resume_token ?? null;
    this.#isCloseSent = false;
    this.unserved = ack.unserved ?? "";
    if (ack.resumed) this.#resumed(ack.next_seq ?? 0, ack.next_utterance_index ?? 0);
    else if (isSecond && this.#restarted()) return;
    this.#sender.use({ socket, sessionId: ack.session_id, isBinary: ack.use_binary_frame });
    this.#extension?.opened(Boolean(ack.resumed));
    this.#setState("open");
    this.#sender.pump();
  }

  #resumed(nextSeq: number, nextIndex: number): void {
    this.timesResumed += 1;
    this.#outgoing.resumed(nextSeq);
    this.#nextIndex = Math.max(this.#nextIndex, nextIndex);
    this.#announced.resumed(nextIndex, (index) => this.#received.has(index));
    this.#events.emit("resumed", { nextSeq, nextIndex });
  }

  /** Whether there was nothing more to be said: the session had ended, and its last word was lost. */
  #restarted(): boolean {
    if (this.#isFinishing && this.#outgoing.isAnswered) {
      this.#end(null);
      return true;
    }
    this.#sender.begin();
    this.#announced.restarted(Math.max(this.#outgoing.nextSeq, this.#nextIndex));
    const lost = this.#outgoing.restarted(this.#nextIndex);
    this.#received = new Received(Math.min(this.#outgoing.firstUnanswered, this.#nextIndex));
    this.#events.emit("restarted", { lost });
    return false;
  }

  #away(): void {
    this.#sender.use(null);
    this.#setState(this.#sessionId ? "away" : "connecting");
  }

  #setState(state: SessionState): void {
    const isNew = this.#state !== state && this.#state !== "ended";
    if (isNew) this.#state = state;
    this.#changed.tell();
    if (isNew) this.#events.emit("state", state);
  }

  #end(error: LinguaError | null): void {
    if (this.#state === "ended") return;
    this.#failure = error;
    this.#sender.close();
    this.#setState("ended");
    this.#link.stop();
    this.#extension?.over(error);
    this.#inbox.end(error);
    this.#events.emit("ended", error);
  }

  #heard(message: ServerMessage): void {
    if (this.#extension?.take(message)) return;
    switch (message.type) {
      case "translation_result":
      case "missing_result":
        return this.#gotOutcome(message);
      case "asr_partial":
        return this.#tell("partial", partialOf(message));
      case "ui_event":
        return this.#gotOn(message);
      case "backpressure":
        return this.#pauseFor(message.resume_after_ms);
      case "session_close_ack":
        return this.#end(null);
      case "error":
        return this.#complained(message);
    }
  }

  #gotOutcome(message: Outcome): void {
    const isOwn = message.session_id === this.#sessionId;
    const index = message.utterance_index;
    if (isOwn) {
      if (this.#received.has(index)) return;
      // What is not read yet has no end; the scheduler keeps the rest, and sends it again.
      if (this.#inbox.isFull) return this.#link.hangUp();
      this.#received.add(index);
      this.#announced.answered(index);
      this.#nextIndex = Math.max(this.#nextIndex, index + 1);
      this.#outgoing.answered(index);
      this.#changed.tell();
    }
    if (!this.#extension?.outcome(message, isOwn) && isOwn) this.#tell("result", resultOf(message));
  }

  /** To listeners, and to one that iterates or may do so later. */
  #tell<Name extends "result" | "partial">(name: Name, heard: SessionEvents[Name]): void {
    const isWanted = this.#isIterated || !this.#events.has("result");
    if (isWanted && !(heard.kind === "partial" && this.#inbox.isFull)) this.#inbox.add(heard);
    this.#events.emit(name, heard);
  }

  #gotOn(message: UiEvent): void {
    const index = message.utterance_index;
    this.#nextIndex = Math.max(this.#nextIndex, index + 1);
    if (!this.#received.has(index)) {
      this.#announced.add(index);
      if (message.event === "INPUT_ENDED") this.#sender.inputEnded(index);
    }
    this.#events.emit("progress", progressOf(message));
  }

  /** Whether an answer is expected. Until all is settled one may be, of speech that is not announced yet. */
  #isWaiting(isAlive: boolean): boolean {
    const isIdle = isAlive && !this.#sender.isPaused && this.#outgoing.isIdle;
    if (isIdle && this.#announced.isUnsettled && this.#announced.areAllIn(this.#sender.idleMs)) {
      this.#announced.isUnsettled = false;
      this.#outgoing.spans.clear();
      this.#events.emit("settled", null);
    }
    return this.#announced.isUnsettled || this.#isFinishing;
  }

  #pauseFor(ms: number): void {
    this.#sender.pauseFor(ms);
    this.#setState("paused");
  }

  #complained({ code, message }: ErrorMessage): void {
    if (!COME_BACK.has(code)) return this.#end(new SessionFailed(code, message, message));
    if (code === "NODE_OVERLOADED") this.#pauseFor(OVERLOADED_PAUSE_MS);
    this.#link.hangUp();
  }
}
