// Where the scheduler is, and with what a client shows itself: a key or a token, asked for before each connect.
import { AccessDenied, LinguaError, TokenNotFetched } from "./errors.js";

export type Token = string | (() => Promise<string>);

// A browser cannot add a header to the handshake of a socket, so the token is carried as a sub-protocol.
const PROTOCOL = "lingua.v1";
const CARRIER = "lingua.auth.";
const SENDABLE = /^[\x21-\x7e]+$/;
const ANSWER_WITHIN_MS = 5_000;
const FETCH_WITHIN_MS = 10_000;

export class Access {
  readonly #token: Token | undefined;
  #shown = "";

  constructor(token: Token | undefined) {
    this.#token = token;
  }

  /** Whether there may be a newer token before the present one expires. */
  get canRefresh(): boolean {
    return typeof this.#token === "function";
  }

  /** The sub-protocols of a socket. Throws TokenNotFetched, AccessDenied. */
  async protocols(): Promise<string[]> {
    const token = await this.#fetched();
    this.#shown = token;
    return token ? [PROTOCOL, CARRIER + token] : [];
  }

  /** For an open connection; empty if there is none that is newer. */
  async newer(): Promise<string> {
    const before = this.#shown;
    this.#shown = await this.#fetched();
    return this.#shown === before ? "" : this.#shown;
  }

  /** Why a handshake was refused, which a WebSocket does not tell; undefined if it was not, or cannot be known. */
  async refusal(url: URL): Promise<AccessDenied | undefined> {
    try {
      const headers: Record<string, string> = this.#shown ? { Authorization: `Bearer ${this.#shown}` } : {};
      const answer = await fetch(askUrl(url), { headers, signal: AbortSignal.timeout(ANSWER_WITHIN_MS) });
      if (answer.status !== 401 && answer.status !== 403) return undefined;
      const { error, detail } = (await answer.json().catch(() => ({}))) as { error?: string; detail?: string };
      const why = detail ?? `the server answered HTTP ${answer.status}`;
      return new AccessDenied(
        error ?? (answer.status === 401 ? "UNAUTHENTICATED" : "PERMISSION_DENIED"),
        this.#shown ? why : `${why}; pass a key or token as the option "token" of connect`,
        answer.status,
      );
    } catch {
      return undefined;
    }
  }

  async #fetched(): Promise<string> {
    const text = typeof this.#token === "function" ? await patiently(this.#token) : (this.#token ?? "");
    const token = text.trim();
    if (token && !SENDABLE.test(token)) throw new AccessDenied("UNAUTHENTICATED", "the key or token has a space or a letter that none has");
    return token;
  }
}

async function patiently(fetchToken: () => Promise<string>): Promise<string> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, fail) => {
    timer = setTimeout(() => fail(new Error(`it took more than ${FETCH_WITHIN_MS / 1000} s`)), FETCH_WITHIN_MS);
  });
  try {
    const token: unknown = await Promise.race([fetchToken(), late]);
    if (typeof token !== "string") throw new TypeError(`it returned ${typeof token}, not a string`);
    return token;
  } catch (error) {
    throw error instanceof AccessDenied ? error : new TokenNotFetched(error);
  } finally {
    clearTimeout(timer);
  }
}

/** `localhost:5010`, `http://…`, `wss://…/lingua`: the address of the endpoint for clients. Throws LinguaError. */
export function sessionUrl(text: string): URL {
  try {
    const url = new URL(/^[a-z]+:\/\//i.test(text) ? text : `ws://${text}`);
    // `protocol` of a special scheme can be changed to another one only.
    if (url.protocol === "http:") url.protocol = "ws:";
    if (url.protocol === "https:") url.protocol = "wss:";
    if (url.protocol !== "ws:" && url.protocol !== "wss:") throw new TypeError("not ws, wss, http or https");
    url.hash = "";
    if (!url.pathname.endsWith("/ws/session")) url.pathname = `${url.pathname.replace(/\/$/, "")}/ws/session`;
    return url;
  } catch {
    throw new LinguaError("BAD_ADDRESS", `"${text}" is not an address such as ws://localhost:5010`);
  }
}

function askUrl(url: URL): URL {
  const ask = new URL(url);
  ask.protocol = url.protocol === "wss:" ? "https:" : "http:";
  ask.pathname = url.pathname.replace(/ws\/session$/, "v1/whoami");
  return ask;
}
