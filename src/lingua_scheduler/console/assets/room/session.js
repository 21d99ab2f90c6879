// One person in one room: a session of the client, and the room that it enters.
import { Room } from "../shared/client.js";
import { finish, openSession, whyRefused } from "../shared/sessions.js";

/** @import {Caption, History, LinguaError, MembersChanged, Said, Session, SessionState} from "../shared/client.js" */
/** @import {Speaking, TextMessage, Unheard} from "../shared/client.js" */
/** @import {Shows} from "../shared/pass.js" */
/** @import {LinkState} from "../shared/sessions.js" */

const CLIENT = "lingua-room-1";

/**
 * @typedef {object} Person
 * @property {string} name
 * @property {string} language spoken, read and heard
 * @property {string} partner a language into which a person alone is translated
 * @property {boolean} wantsSpeech
 * @property {boolean} isGuest
 */
/**
 * @typedef {object} RoomEvents
 * @property {(state: LinkState) => void} state
 * @property {(room: Room) => void} entering it can be listened to
 * @property {(code: string) => void} entered also again, as another session
 * @property {(event: MembersChanged) => void} members
 * @property {(event: Speaking) => void} speaking
 * @property {(event: Caption) => void} caption
 * @property {(event: Said | Unheard) => void} outcome
 * @property {(event: TextMessage) => void} message
 * @property {(event: History) => void} history
 * @property {() => void} settled all that was said here has its outcome
 * @property {(code: string) => void} failed a room could not be entered, or something in it could not be done
 * @property {(code: string, message: string) => void} ended for good
 */

export class RoomSession {
  #on;
  #url;
  #pass;
  #person;
  /** @type {Session | null} */
  #session = null;
  /** @type {Room | null} */
  #room = null;
  isIn = false;
  #isOut = false;

  /**
   * @param {URL} url
   * @param {Person} person
   * @param {RoomEvents} on
   * @param {Shows} [pass]
   */
  constructor(url, person, on, pass) {
    this.#url = url;
    this.#person = person;
    this.#on = on;
    this.#pass = pass;
  }

  get id() {
    return this.#session?.sessionId ?? "";
  }

  /** What was said here is played of it. */
  get session() {
    return this.#session;
  }

  /** Of the room; empty until one that is created is there. */
  get code() {
    return this.#room?.code ?? "";
  }

  get timesResumed() {
    return this.#session?.timesResumed ?? 0;
  }

  /** @param {string} code empty: a new room */
  async enter(code) {
    const { language, partner, name, wantsSpeech, isGuest } = this.#person;
    const session = openSession(this.#url, { source: language, target: partner, client: CLIENT }, this.#pass);
    this.#session = session;
    session.on("state", (state) => this.#told(state));
    session.on("restarted", () => this.#on.settled());
    session.on("settled", () => this.#on.settled());
    session.on("ended", (error) => error && this.#refused(error));
    this.#told(session.state);
    const told = { name, language, voices: true, waits: false, listenOnly: isGuest };
    const room = new Room(session, code, wantsSpeech ? told : { ...told, speech: false });
    this.#room = room;
    this.#listen(room);
    try {
      await session.opened();
      if (!this.#isOut) await room.entered();
    } catch (error) {
      if (this.#isOut) return;
      this.#stop();
      this.#on.failed(codeOf(error));
    }
  }

  /** @param {SessionState} state */
  #told(state) {
    if (!this.#isOut && state !== "ended") this.#on.state(state);
  }

  /** @param {Room} room */
  #listen(room) {
    this.#on.entering(room);
    room.on("entered", ({ code }) => {
      this.isIn = true;
      this.#on.entered(code);
    });
    room.on("members", this.#on.members);
    room.on("speaking", this.#on.speaking);
    room.on("caption", this.#on.caption);
    room.on("said", this.#on.outcome);
    room.on("unheard", this.#on.outcome);
    room.on("message", this.#on.message);
    room.on("history", this.#on.history);
    room.on("rejected", ({ code }) => this.#on.failed(code));
    room.on("ended", ({ code, said }) => this.#end(code, said));
  }

  /**
   * Takes a stretch of speech; false if too much waits to be sent.
   * @param {Int16Array} audio
   * @param {boolean} isFinal
   */
  send(audio, isFinal) {
    return this.#session?.trySend(audio, isFinal) ?? false;
  }

  hurry() {
    this.#session?.hurry();
  }

  /**
   * While one is in the room; what is the same stays.
   * @param {Partial<Pick<Person, "name" | "language" | "wantsSpeech">>} changes
   */
  update({ name, language, wantsSpeech }) {
    this.#do((room) => room.update({ name, language, speaks: language, speech: wantsSpeech }));
  }

  /**
   * @param {string} text
   * @returns {Promise<boolean>} whether it was sent
   */
  async say(text) {
    if (!this.isIn) return false;
    return this.#room?.write(text).then(() => true, () => false) ?? false;
  }

  /** @param {boolean} locked */
  lock(locked) {
    this.#do((room) => room.lock(locked));
  }

  /** @param {string} id */
  remove(id) {
    this.#do((room) => room.remove(id));
  }

  /** Ends the room for all. */
  close() {
    this.#do((room) => room.close());
  }

  leave() {
    if (this.isIn) this.#room?.leave();
    this.#stop();
  }

  /** @param {(room: Room) => Promise<void>} act */
  #do(act) {
    // Into a broken connection nothing is sent.
    if (this.#room) act(this.#room).catch(() => {});
  }

  /** @param {LinguaError} error */
  #refused(error) {
    const why = whyRefused(error, this.#pass);
    if (!this.#isOut) this.#end("refused", why);
  }

  /**
   * @param {string} code
   * @param {string} message
   */
  #end(code, message) {
    this.#stop();
    this.#on.ended(code, message);
  }

  #stop() {
    if (this.#isOut) return;
    this.#isOut = true;
    this.isIn = false;
    if (this.#session) finish(this.#session);
  }
}

/** @param {unknown} error */
function codeOf(error) {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}
