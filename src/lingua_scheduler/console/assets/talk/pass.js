// With what this page comes in: nothing where no key is needed, else a short-lived token for the person who is logged in.

/** @import {WhoAmI} from "../shared/types" */

const ANSWER_WITHIN_MS = 5_000;
const DENIED = new Set([401, 403]);
// What carries a token: a page cannot add a header to the handshake of a socket.
const PROTOCOL = "lingua.v1";
const CARRIER = "lingua.auth.";

export class Pass {
  #base;
  #needsToken = true;
  /** Whether the scheduler said that this page may not be used without a login. */
  isDenied = false;

  /** @param {URL} base where the scheduler's operations are */
  constructor(base) {
    this.#base = base;
  }

  /** Asks who uses the page. Throws when the scheduler does not answer. */
  async learn() {
    const answer = await this.#ask("whoami", "GET");
    this.isDenied = DENIED.has(answer.status);
    if (this.isDenied) return;
    if (!answer.ok) throw new Error(String(answer.status));
    /** @type {WhoAmI} */
    const who = await answer.json();
    this.#needsToken = who.kind !== "local";
    this.isDenied = this.#needsToken && !who.scopes.includes("tokens:mint");
  }

  /**
   * The sub-protocols of a socket. A token is made for each: it lives no longer than it takes to use it.
   * @returns {Promise<string[]>}
   */
  async protocols() {
    if (!this.#needsToken) return [];
    const answer = await this.#ask("tokens/talk", "POST");
    if (DENIED.has(answer.status)) this.isDenied = true;
    if (!answer.ok) throw new Error(String(answer.status));
    const { token } = await answer.json();
    return [PROTOCOL, CARRIER + token];
  }

  /**
   * @param {string} path
   * @param {string} method
   */
  #ask(path, method) {
    return fetch(new URL(path, this.#base), {
      method,
      cache: "no-store",
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    });
  }
}
