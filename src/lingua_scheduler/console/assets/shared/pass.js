// With what this page comes in: nothing where no key is needed, else the token in its address, or a short-lived one for
// the person who is logged in.

/** @import {AccessDenied} from "./client.js" */
/** @import {WhoAmI} from "./types" */
/** @typedef {Pick<Pass, "credential" | "refused">} Shows what a session needs of it */
/** @typedef {"" | "needs_login" | "needs_role" | "bad_token"} Denial a word of the pages; empty: not denied */

const ANSWER_WITHIN_MS = 5_000;
const DENIED = new Set([401, 403]);
// A proxy in front may not pass the question on: then what a person may do is found out by doing it.
const UNASKED = 404;
// The connection has guessed at sessions: that says nothing about its credential.
const GUESSING = 4007;

export class Pass {
  #base;
  #given;
  #needsToken = true;
  /**
   * Why the scheduler does not let this page in.
   * @type {Denial}
   */
  denial = "";
  /**
   * How the scheduler sees the token that an app gave.
   * @type {WhoAmI | null}
   */
  holder = null;

  /**
   * @param {URL} base where the scheduler's operations are
   * @param {string} [given] a token that an app gave to this person
   */
  constructor(base, given = "") {
    this.#base = base;
    this.#given = given;
  }

  /**
   * For requests by HTTP; a login needs none.
   * @returns {Record<string, string>}
   */
  get headers() {
    return this.#given ? { Authorization: `Bearer ${this.#given}` } : {};
  }

  get isDenied() {
    return this.denial !== "";
  }

  /** Whether people come in with tokens here. Known once the page has asked who uses it. */
  get needsToken() {
    return this.#given !== "" || this.#needsToken;
  }

  /** Whether the token that an app gave was refused: this page cannot get another one by itself. */
  get #isVoid() {
    return this.denial === "bad_token";
  }

  /** What a session shows: the token that an app gave, or what makes one for each connection. */
  get credential() {
    return this.#given || (() => this.#made());
  }

  /**
   * The person has opened another link. Whether its token is another one.
   * @param {string} given
   */
  replace(given) {
    if (given === this.#given) return false;
    this.#given = given;
    this.#needsToken = true;
    this.denial = "";
    this.holder = null;
    return true;
  }

  /**
   * A session was not let in, or not any more.
   * @param {AccessDenied} error
   */
  refused({ status }) {
    if (status !== GUESSING) this.denial = this.#given ? "bad_token" : "needs_login";
  }

  /** Asks who uses the page. Throws when the scheduler does not answer. */
  async learn() {
    if (this.#isVoid) return;
    const answer = await this.#ask("whoami", "GET");
    if (DENIED.has(answer.status)) {
      this.denial = this.#given ? "bad_token" : "needs_login";
      return;
    }
    this.denial = "";
    if (this.#given && answer.status === UNASKED) return;
    if (!answer.ok) throw new Error(String(answer.status));
    this.#see(await answer.json());
  }

  /** @param {WhoAmI} who */
  #see(who) {
    if (this.#given) this.holder = who;
    else {
      this.#needsToken = who.kind !== "local";
      if (this.#needsToken && !who.scopes.includes("tokens:mint")) this.denial = "needs_role";
    }
  }

  /** @returns {Promise<string>} a token for the person who is logged in; empty where none is needed */
  async #made() {
    if (!this.needsToken) return "";
    const answer = await this.#ask("tokens/talk", "POST");
    if (DENIED.has(answer.status)) this.denial = "needs_login";
    if (!answer.ok) throw new Error(String(answer.status));
    const { token } = await answer.json();
    return token;
  }

  /**
   * @param {string} path
   * @param {string} method
   */
  #ask(path, method) {
    return fetch(new URL(path, this.#base), {
      method,
      headers: this.headers,
      cache: "no-store",
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
  }
}
