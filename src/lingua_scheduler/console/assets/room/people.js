// Who is in the room, and who was: lines keep the names of people who have left.

/** @import {MembersChanged, Person as Member} from "../shared/client.js" */
/** @import {Who} from "./transcript.js" */

// As many as a room can have, many times over.
const MAX_KNOWN = 500;
// A caption of someone whose end of speech was lost.
const SPEAKS_FOR_MS = 20_000;
const COLOURS = 8;

/**
 * @typedef {object} Person
 * @property {string} id
 * @property {string} name
 * @property {string} language
 * @property {"" | "host" | "listener"} role
 * @property {boolean} isMe
 * @property {boolean} isSpeaking
 * @property {number} colour
 */

export class People {
  #me = "";
  // Also the sessions before: what was said in them is one's own.
  /** @type {Set<string>} */
  #own;
  /** @type {Member[]} */
  #members = [];
  /** @type {Map<string, {name: string, language: string, number: number}>} */
  #known = new Map();
  /**
   * Until when each of them speaks, unless the end is told before.
   * @type {Map<string, number>}
   */
  #speaking = new Map();
  #nameless;
  guests = 0;
  isLocked = false;

  /**
   * @param {(number: number) => string} nameless what someone without a name is called
   * @param {string[]} [own] sessions that this page had before
   */
  constructor(nameless, own = []) {
    this.#nameless = nameless;
    this.#own = new Set(own);
  }

  /** @param {string} id of the session of this page */
  become(id) {
    this.#me = id;
    this.#own.add(id);
  }

  /**
   * Who else has come and gone since the last time; at first, no one has.
   * @param {Omit<MembersChanged, "kind">} event
   */
  told({ members, guests, isLocked }) {
    const before = new Set(this.ids);
    const now = new Set(members.map(({ sessionId }) => sessionId));
    this.#members = members;
    this.guests = guests;
    this.isLocked = isLocked;
    for (const member of members) this.#learn(member);
    for (const id of this.#speaking.keys()) if (!now.has(id)) this.#speaking.delete(id);
    const others = (/** @type {string[]} */ ids) => ids.filter((id) => !this.#own.has(id)).map((id) => this.who(id));
    const came = before.size ? [...now].filter((id) => !before.has(id)) : [];
    return { came: others(came), left: others([...before].filter((id) => !now.has(id))) };
  }

  /**
   * @param {string} id
   * @param {boolean} isSpeaking
   * @param {number} now
   */
  speaks(id, isSpeaking, now) {
    if (isSpeaking && this.has(id)) this.#speaking.set(id, now + SPEAKS_FOR_MS);
    else this.#speaking.delete(id);
  }

  /**
   * Whether someone is not taken for speaking any more.
   * @param {number} now
   */
  tire(now) {
    const tired = [...this.#speaking].filter(([, until]) => until <= now).map(([id]) => id);
    for (const id of tired) this.#speaking.delete(id);
    return tired.length > 0;
  }

  /** @param {string} id */
  has(id) {
    return this.#members.some(({ sessionId }) => sessionId === id);
  }

  get ids() {
    return this.#members.map(({ sessionId }) => sessionId);
  }

  get isHost() {
    return this.#members.find(({ sessionId }) => sessionId === this.#me)?.role === "host";
  }


  /** @returns {Person[]} */
  get all() {
    return this.#members.map(({ sessionId, role }) => ({
      ...this.who(sessionId),
      isMe: sessionId === this.#me,
      role: role === "host" || role === "listener" ? role : "",
      isSpeaking: this.#speaking.has(sessionId),
      colour: this.colour(sessionId),
    }));
  }

  /**
   * @param {string} id
   * @param {string} [name] as it was told with what was said
   * @returns {Who}
   */
  who(id, name = "") {
    const known = this.#known.get(id) ?? this.#learn({ sessionId: id, name, language: "", speaks: "" });
    return { id, name: name || known.name || this.#nameless(known.number), language: known.language, isMe: this.#own.has(id) };
  }

  /** @param {string} id */
  colour(id) {
    return (this.#known.get(id)?.number ?? 0) % COLOURS;
  }

  /** @param {Omit<Member, "role">} member */
  #learn({ sessionId, name, language, speaks }) {
    const number = this.#known.size + 1;
    const before = this.#known.get(sessionId) ?? { name: "", language: "", number };
    const known = { ...before, name: name || before.name, language: speaks || language || before.language };
    if (known.number <= MAX_KNOWN) this.#known.set(sessionId, known);
    return known;
  }
}
