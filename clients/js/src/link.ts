// Keeps a session connected: opens a socket, and the next one when it breaks, until that is no longer of use.
import { Access, sessionUrl, type Token } from "./access.js";
import { AccessDenied, dismissal, LinguaError, SessionFailed, TokenNotFetched, Unreachable } from "./errors.js";
import { Heartbeat } from "./heartbeat.js";
import type { ClientMessage, ErrorMessage, ServerMessage, SessionInit, SessionInitAck } from "./messages.js";
import { Retries } from "./retries.js";
import { type SocketEnd, SessionSocket, type WebSocketClass } from "./socket.js";

const EXPIRED = 4005;
const GIVE_UP_AFTER_MS = 300_000;
// What no second try will mend.
const NOT_AGAIN = new Set(["INVALID_MESSAGE", "UNSUPPORTED_FEATURE", "INVALID_PAIRING_CODE", "PERMISSION_DENIED"]);
// A first connection that breaks before the session is open is tried so often.
const FIRST_TRIES = 3;
const NEVER_MET: SocketEnd = { wasMet: false, wasOpen: false, closeCode: 0 };

export interface LinkOptions {
  /** Such as `ws://localhost:5010`; or several, all of one scheduler's instances. */
  url: string | string[];
  /** A key or a token, or a function that fetches one before each connect and before the last one expires. */
  token?: Token;
  /** Where there is no global WebSocket, as in Node.js 20: that of the package `ws`. */
  webSocket?: WebSocketClass;
  /** How long a lost connection is tried again; 5 minutes by default. */
  giveUpAfterMs?: number;
  /** How long the first connection is tried while no scheduler answers, or none has room; by default once at each address. */
  openWithinMs?: number;
}

export interface LinkEvents {
  greet(): SessionInit;
  opened(socket: SessionSocket, ack: SessionInitAck): void;
  heard(message: ServerMessage): void;
  away(): void;
  /** When another connection may be made. */
  mayReturn(): Promise<void>;
  /** Whether an answer is expected; asked every two seconds. `isAlive`: the scheduler has answered lately. */
  isWaiting(isAlive: boolean): boolean;
  failed(error: LinguaError): void;
}

export class Link {
  readonly #urls: URL[];
  readonly #access: Access;
  readonly #class: WebSocketClass;
  readonly #giveUpAfterMs: number;
  readonly #openUntil: number;
  readonly #on: LinkEvents;
  readonly #heartbeat: Heartbeat;
  readonly #retries = new Retries();
  #socket: SessionSocket | null = null;
  #sessionId = "";
  #refused: ErrorMessage | null = null;
  #refusals = 0;
  #tries = 0;
  #isOver = false;

  /** Throws LinguaError. */
  constructor({ url, token, webSocket, giveUpAfterMs, openWithinMs }: LinkOptions, on: LinkEvents) {
    this.#urls = (Array.isArray(url) ? url : [url]).map(sessionUrl);
    this.#access = new Access(token);
    this.#class = webSocket ?? globalThis.WebSocket;
    if (!this.#class) throw new LinguaError("NO_WEBSOCKET", "there is no global WebSocket here: pass webSocket, such as that of the package ws");
    this.#giveUpAfterMs = giveUpAfterMs ?? GIVE_UP_AFTER_MS;
    this.#openUntil = performance.now() + (openWithinMs ?? 0);
    this.#on = on;
    this.#heartbeat = new Heartbeat({
      look: () => (this.isOpen ? on.isWaiting(!this.#heartbeat.isAwaited) : null),
      ask: () => this.post({ type: "client_heartbeat", session_id: this.#sessionId, timestamp: Date.now() }),
      dead: () => this.#socket?.hangUp(true),
    });
    void this.#stay();
  }

  get isOpen(): boolean {
    return this.#socket?.isOpen ?? false;
  }

  /** Into a broken connection nothing is sent, and the answer is false. */
  post(message: ClientMessage): boolean {
    if (!this.isOpen) return false;
    this.#socket?.post(message);
    return true;
  }

  /** The network is back, or the page is visible again. */
  hurry(): void {
    this.#retries.hurry();
  }

  /** Another connection follows. */
  hangUp(): void {
    this.#socket?.hangUp();
  }

  stop(): void {
    this.#isOver = true;
    this.#heartbeat.stop();
    this.#socket?.hangUp();
    this.#retries.hurry();
  }

  async #stay(): Promise<void> {
    let openAt = performance.now();
    while (!this.#isOver) {
      let error: LinguaError | undefined;
      try {
        const end = await this.#meet();
        if (end.wasOpen) openAt = performance.now();
        error = await this.#reason(end);
      } catch (thrown) {
        error = this.#thrown(thrown);
      }
      if (this.#isOver) return;
      const isLate = performance.now() - openAt > this.#giveUpAfterMs && !this.#isPatient;
      if (isLate) error ??= new Unreachable("the connection was lost and could not be restored");
      if (error) return this.#on.failed(error);
      this.#on.away();
      await this.#on.mayReturn();
      await this.#retries.pause();
    }
  }

  /** The first connection may still be tried. */
  get #isPatient(): boolean {
    return this.#sessionId === "" && performance.now() < this.#openUntil;
  }

  get #url(): URL {
    return this.#urls[this.#tries % this.#urls.length]!;
  }

  /** One socket, to its end. */
  async #meet(): Promise<SocketEnd> {
    const protocols = await this.#access.protocols();
    if (this.#isOver) return NEVER_MET;
    this.#refused = null;
    const newer = protocols.length && this.#access.canRefresh ? () => this.#access.newer() : undefined;
    const socket: SessionSocket = new SessionSocket(
      new this.#class(this.#url.href, protocols),
      {
        greet: () => this.#on.greet(),
        sign: () => this.#heartbeat.sign(),
        opened: (ack) => this.#opened(socket, ack),
        heard: (message) => this.#on.heard(message),
        refused: (error) => (this.#refused = error),
      },
      newer,
    );
    this.#socket = socket;
    const end = await socket.ended;
    this.#socket = null;
    return end;
  }

  #opened(socket: SessionSocket, ack: SessionInitAck): void {
    this.#sessionId = ack.session_id;
    this.#refusals = 0;
    this.#retries.reset();
    this.#on.opened(socket, ack);
  }

  /** Why no other connection is to be made; undefined if one is. */
  async #reason(end: SocketEnd): Promise<LinguaError | undefined> {
    const dismissed = dismissal(end.closeCode);
    if (dismissed) return dismissed;
    if (end.closeCode === EXPIRED && !this.#access.canRefresh) {
      return new AccessDenied("TOKEN_EXPIRED", "the token has expired; pass a function that fetches another as token", EXPIRED);
    }
    if (end.wasOpen) return undefined;
    return end.wasMet ? this.#notOpened() : this.#notMet();
  }

  #notOpened(): LinguaError | undefined {
    const { code = "UNREACHABLE", message = "" } = this.#refused ?? {};
    const why = message || "it did not answer, or closed the connection";
    const error = new SessionFailed(code, `the scheduler did not open a session: ${why}`, message);
    // It would be refused again.
    if (NOT_AGAIN.has(code) && (this.#sessionId || this.#isPatient)) return error;
    return this.#otherAddress(this.#refused ? 1 : FIRST_TRIES, error);
  }

  async #notMet(): Promise<LinguaError | undefined> {
    const url = this.#url;
    const refusal = await this.#access.refusal(url);
    if (refusal) {
      this.#refusals += 1;
      // A function may have kept its last token for a moment too long; it is asked for another, once.
      return this.#access.canRefresh && this.#refusals < 2 ? undefined : refusal;
    }
    return this.#otherAddress(1, new Unreachable(`no scheduler answers at ${url.origin}`));
  }

  /** The first connection is tried so often at each address, later ones until it is given up. */
  #otherAddress(tries: number, error: LinguaError): LinguaError | undefined {
    this.#tries += 1;
    return this.#sessionId || this.#isPatient || this.#tries < tries * this.#urls.length ? undefined : error;
  }

  #thrown(thrown: unknown): LinguaError | undefined {
    if (thrown instanceof TokenNotFetched && (this.#sessionId || this.#isPatient)) return undefined;
    if (thrown instanceof LinguaError) return thrown;
    return new SessionFailed("CLIENT_FAILED", `the client failed: ${String(thrown)}`, "", { cause: thrown });
  }
}
