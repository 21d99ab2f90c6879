// Rooms: several people, each in a language of their own. A session enters one, and stays in it over breaks.
import { type LinguaError, RoomRefused } from "./errors.js";
import { Emitter, Inbox } from "./events.js";
import type { ClientMessage, RoomCreate, RoomCreateAck, RoomError, RoomMembers, ServerMessage, SessionInit } from "./messages.js";
import type { Outcome } from "./results.js";
import { inEnglish, Reading, type Person, type RoomEvent, type RoomSignal, type VoiceSignal } from "./room-events.js";
import { inTime, Requests } from "./requests.js";
import type { Extension, Session } from "./session.js";

export type * from "./room-events.js";
export { RoomRefused } from "./errors.js";

const MAX_UNREAD = 1_000;
// After a break the scheduler tells a member of its room at once. Otherwise it is not in it any more, and joins again.
const TOLD_WITHIN_MS = 3_000;
// What may be over soon, when one comes back.
const PASSING = new Set(["INTERNAL_ERROR", "QUOTA_EXCEEDED"]);
const ASK_AGAIN_MS = 5_000;
const MAX_TEXT_CHARS = 2_000;

export interface RoomOptions {
  name?: string;
  /** In which you read and hear the others; by default that of the session. */
  language?: string;
  /** False: translations as text alone. */
  speech?: boolean;
  /** Servers are asked for, through which browsers connect for voices (`./voices`). */
  voices?: boolean;
  /** False: verbs do not wait for what comes of them, and a refusal is the event `rejected`. For a page that shows what it is told. */
  waits?: boolean;
}

export interface JoinOptions extends RoomOptions {
  /** A guest listens, and is counted, not listed. */
  listenOnly?: boolean;
}

export interface RoomUpdates extends Pick<RoomOptions, "name" | "language" | "speech"> {
  /** The language that you speak from your next utterance on. */
  speaks?: string;
}

type AnyRoomEvent = RoomEvent | RoomSignal;
type RoomListeners = { [Kind in AnyRoomEvent["kind"]]: Extract<AnyRoomEvent, { kind: Kind }> };

/** Opens a room and enters it; others join with its `code`. Throws RoomRefused. */
export function createRoom(session: Session, options: RoomOptions = {}): Promise<Room> {
  return new Room(session, "", options).entered();
}

/** Enters the room with this code. Throws RoomRefused. */
export function joinRoom(session: Session, code: string, options: JoinOptions = {}): Promise<Room> {
  return new Room(session, code, options).entered();
}

/** Iterate over it, or listen to its events. To speak, use the session. */
export class Room implements Extension, AsyncIterable<RoomEvent> {
  readonly #session: Session;
  readonly #options: JoinOptions;
  readonly #reading = new Reading();
  readonly #inbox = new Inbox<RoomEvent>(MAX_UNREAD);
  readonly #events = new Emitter<RoomListeners>();
  #isIterated = false;
  #code: string;
  #phase: "entering" | "in" | "returning" | "out" = "entering";
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #requests = new Requests();
  #entry: { done(): void; fail(error: Error): void } | null = null;
  // An ordinary error follows a refusal, for clients that show only that.
  #echo: RoomError | null = null;

  /** Use `createRoom` or `joinRoom`. */
  constructor(session: Session, code: string, options: JoinOptions) {
    this.#session = session;
    this.#code = code;
    this.#options = { ...options };
  }

  /** Of the room, for those who join. */
  get code(): string {
    return this.#code;
  }

  get members(): readonly Person[] {
    return this.#reading.members;
  }

  get isOver(): boolean {
    return this.#phase === "out";
  }

  on<Kind extends AnyRoomEvent["kind"]>(kind: Kind, listener: (event: RoomListeners[Kind]) => void): () => void {
    return this.#events.on(kind, listener);
  }

  [Symbol.asyncIterator](): AsyncIterator<RoomEvent> {
    this.#isIterated = true;
    return this.#inbox;
  }

  async entered(): Promise<this> {
    const entering = inTime((done, fail) => (this.#entry = { done, fail }));
    this.#session.use(this);
    this.#ask();
    try {
      await entering;
      return this;
    } catch (error) {
      this.#stop(null);
      throw error;
    } finally {
      this.#entry = null;
    }
  }

  // Verbs

  /** A text message to everyone in the room. */
  async write(text: string): Promise<void> {
    if (!text.trim() || text.length > MAX_TEXT_CHARS) throw new RoomRefused("INVALID_MESSAGE", `a message has 1 to ${MAX_TEXT_CHARS} characters`);
    const own = this.#session.sessionId;
    await this.#request({ type: "room_say", room_code: this.#code, text }, (event) => event.kind === "message" && event.speaker === own);
  }

  /** What is not named stays. */
  async update({ name, language, speaks, speech }: RoomUpdates): Promise<void> {
    Object.assign(this.#options, JSON.parse(JSON.stringify({ name, language, speech })));
    if (speaks !== undefined) this.#session.wish({ src_lang: speaks });
    const message: ClientMessage = {
      ...{ type: "room_update", room_code: this.#code, display_name: name ?? null },
      ...{ preferred_lang: language ?? null, src_lang: speaks ?? null, speech: speech ?? null },
    };
    // Guests are not listed, so there is nothing to wait for; a refusal is an event.
    if (this.#options.listenOnly) this.#post(message);
    else await this.#request(message, (event) => event.kind === "members");
  }

  /** Of the host: let no one else join, or let them again. */
  lock(locked = true): Promise<void> {
    return this.#request({ type: "room_lock", room_code: this.#code, locked }, (event) => event.kind === "members" && event.isLocked === locked);
  }

  /** Of the host: send a member away. */
  remove(sessionId: string): Promise<void> {
    return this.#request(
      { type: "room_remove", room_code: this.#code, target_session_id: sessionId },
      (event) => event.kind === "members" && event.members.every((one) => one.sessionId !== sessionId),
    );
  }

  /** Of the host: end the room for all. */
  close(): Promise<void> {
    return this.#request({ type: "room_close", room_code: this.#code }, (event) => event.kind === "ended");
  }

  /** What is not read yet can still be read; the session goes on outside of the room. */
  leave(): void {
    if (this.isOver) return;
    this.#session.post({ type: "room_leave", room_code: this.#code });
    this.#stop(null);
  }

  /** For `./voices`. */
  signal(signal: VoiceSignal): void {
    this.#session.post(signal);
  }

  // For the session

  greeting(): Partial<SessionInit> {
    const last = this.#reading.lastSeq;
    return last === null || this.isOver ? {} : { last_room_seq: last };
  }

  opened(isResumed: boolean): void {
    clearTimeout(this.#timer);
    if (this.isOver) return;
    if (isResumed) this.#timer = setTimeout(() => this.#ask(), TOLD_WITHIN_MS);
    else this.#ask();
  }

  outcome(message: Outcome, isOwn: boolean): boolean {
    if (this.isOver) return false;
    const event = this.#reading.outcome(message, isOwn);
    if (event) this.#tell(event);
    return true;
  }

  over(error: LinguaError | null): void {
    this.#stop(error);
  }

  take(message: ServerMessage): boolean {
    if (message.type === "error") return this.#isEcho(message.code, message.message);
    if (this.isOver) return message.type.startsWith("room_");
    switch (message.type) {
      case "room_create_ack":
        this.#enter(message);
        break;
      case "room_members":
        this.#listed(message);
        break;
      case "room_expired":
        if (message.room_code === this.#code) this.#ended(message.message, "");
        break;
      case "asr_partial":
        this.#tell(this.#reading.caption(message));
        break;
      case "room_error":
        this.#refused(message);
        break;
      default:
        return this.#isNews(message);
    }
    return true;
  }

  /** Whether it is about a room. Of another one nothing is told. */
  #isNews(message: ServerMessage): boolean {
    if (!("room_code" in message)) return false;
    if (message.room_code !== this.#code) return true;
    switch (message.type) {
      case "room_caption":
        return this.#tell(this.#reading.caption(message));
      case "room_speaking":
        return this.#tell(this.#reading.speaking(message));
      case "room_message":
        return this.#tell(this.#reading.message(message));
      case "room_history":
        return this.#tell(this.#reading.history(message));
      case "webrtc_offer":
      case "webrtc_answer":
      case "webrtc_ice":
        this.#events.emit("signal", { kind: "signal", signal: message });
        return true;
      default:
        return false;
    }
  }

  #ask(): void {
    if (this.#phase === "in") this.#phase = "returning";
    const { name, language, speech, voices, listenOnly } = this.#options;
    const wishes: Omit<RoomCreate, "type"> = {
      ...{ display_name: name || null, preferred_lang: language ?? null, room_events: true },
      ...{ speech: speech ?? null, ice_servers: voices ?? null },
    };
    if (this.#code) this.#session.post({ type: "room_join", room_code: this.#code, listen_only: listenOnly ?? null, ...wishes });
    else this.#session.post({ type: "room_create", client_ts: Date.now(), ...wishes });
  }

  #enter({ room_code, room_seq, ice_servers }: Pick<RoomCreateAck, "room_code" | "room_seq" | "ice_servers">): void {
    clearTimeout(this.#timer);
    const isFirst = this.#phase === "entering";
    this.#code = room_code;
    this.#phase = "in";
    if (isFirst && room_seq != null) this.#reading.begin(room_seq);
    this.#entry?.done();
    const iceServers = ice_servers ?? [];
    this.#events.emit("entered", { kind: "entered", code: room_code, sessionId: this.#session.sessionId, iceServers });
  }

  #listed(message: RoomMembers): void {
    // The acknowledgement was lost with the socket.
    if (this.#phase === "entering" && (!this.#code || this.#code === message.room_code)) this.#enter({ room_code: message.room_code });
    if (message.room_code !== this.#code) return;
    clearTimeout(this.#timer);
    this.#phase = "in";
    this.#tell(this.#reading.changed(message));
  }

  #refused(refusal: RoomError): void {
    this.#echo = refusal;
    const { code } = refusal;
    const message = inEnglish(refusal.message);
    const error = new RoomRefused(code, message);
    if (this.#entry) this.#entry.fail(error);
    else if (this.#requests.refused(error)) return;
    else if (this.#phase !== "returning") this.#tell({ kind: "rejected", code, text: message });
    else if (PASSING.has(code)) this.#timer = setTimeout(() => this.#ask(), ASK_AGAIN_MS);
    else if (code === "ALREADY_IN_ROOM") this.#phase = "in";
    else this.#ended(refusal.message, code);
  }

  #isEcho(code: string, message: string): boolean {
    const isEcho = this.#echo?.code === code && this.#echo.message === message;
    this.#echo = null;
    return isEcho;
  }

  #ended(said: string, code: string): void {
    this.#tell({ kind: "ended", text: inEnglish(said), said, code });
    this.#stop(null);
  }

  #stop(error: LinguaError | null): void {
    if (this.isOver) return;
    clearTimeout(this.#timer);
    this.#phase = "out";
    this.#inbox.end(error);
    this.#entry?.fail(error ?? isOver());
    this.#requests.refused(error ?? isOver());
  }

  /** To listeners, and to one that iterates or may do so later. Captions, and who speaks, may be lost. */
  #tell(event: RoomEvent): true {
    this.#requests.told(event);
    if (this.#isIterated || !this.#events.has("said")) this.#keep(event);
    this.#events.emit(event.kind, event as never);
    return true;
  }

  #keep(event: RoomEvent): void {
    if (!this.#inbox.isFull) this.#inbox.add(event);
    else if (event.kind !== "caption" && event.kind !== "speaking") this.#inbox.replaceOldest(event);
  }

  #post(message: ClientMessage): void {
    if (this.isOver) throw isOver();
    if (!this.#session.post(message)) throw new RoomRefused("AWAY", "the connection is being restored; try again");
  }

  async #request(message: ClientMessage, isDone: (event: RoomEvent) => boolean): Promise<void> {
    if (this.#options.waits === false) this.#post(message);
    else await this.#requests.make(() => this.#post(message), isDone);
  }
}

function isOver(): RoomRefused {
  return new RoomRefused("ROOM_OVER", "the room has ended; create or join another one");
}
