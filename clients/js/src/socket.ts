// One socket of a session, from its opening to its end: the first word is ours, the acknowledgement theirs.
import type { ClientMessage, ErrorMessage, ServerMessage, SessionInit, SessionInitAck } from "./messages.js";
import { Renewal } from "./renewal.js";

/** What is used of a WebSocket: the browser's, that of Node.js 22, or the package `ws`. */
export interface WebSocketLike {
  readonly readyState: number;
  readonly bufferedAmount: number;
  onopen: ((event: any) => void) | null;
  onmessage: ((event: any) => void) | null;
  onclose: ((event: any) => void) | null;
  onerror: ((event: any) => void) | null;
  send(message: any): void;
  close(code?: number, reason?: string): void;
  /** Of `ws`: without waiting for the other end. */
  terminate?(): void;
}

export type WebSocketClass = new (url: string, protocols: string[]) => WebSocketLike;

const OPEN = 1;
const ACK_WITHIN_MS = 10_000;

export interface SocketEvents {
  /** What is said first. */
  greet(): SessionInit;
  /** Anything came. */
  sign(): void;
  opened(ack: SessionInitAck): void;
  /** After it was opened. */
  heard(message: ServerMessage): void;
  /** Instead of being opened. */
  refused(error: ErrorMessage): void;
}

/** How a socket ended: `wasMet` if the handshake succeeded, `wasOpen` if the session was acknowledged on it. */
export interface SocketEnd {
  wasMet: boolean;
  wasOpen: boolean;
  closeCode: number;
}

export class SessionSocket {
  readonly #socket: WebSocketLike;
  readonly #on: SocketEvents;
  readonly #patience: ReturnType<typeof setTimeout>;
  readonly #renewal: Renewal | undefined;
  #wasMet = false;
  #wasOpen = false;
  #end: (end: SocketEnd) => void = () => {};
  readonly ended = new Promise<SocketEnd>((done) => (this.#end = done));

  /** `newerToken`: if the one in the protocols expires. */
  constructor(socket: WebSocketLike, on: SocketEvents, newerToken?: () => Promise<string>) {
    this.#socket = socket;
    this.#on = on;
    this.#renewal = newerToken && new Renewal(newerToken, (message) => this.post(message));
    this.#patience = setTimeout(() => this.hangUp(), ACK_WITHIN_MS);
    socket.onopen = () => {
      this.#wasMet = true;
      this.post({ ...on.greet(), ...(newerToken ? { refreshes_token: true } : {}) });
    };
    socket.onclose = ({ code }: { code: number }) => this.#over(code);
    // Always followed by a close; without a handler, `ws` would throw.
    socket.onerror = () => {};
    socket.onmessage = ({ data }: { data: unknown }) => this.#took(data);
  }

  /** Whether something that is sent now may arrive. */
  get isOpen(): boolean {
    return this.#wasOpen && this.#socket.readyState === OPEN;
  }

  get bufferedAmount(): number {
    return this.#socket.bufferedAmount;
  }

  /** Into a broken connection nothing is sent; what matters is sent again after it came back. */
  post(message: ClientMessage): void {
    this.send(JSON.stringify(message));
  }

  send(frame: string | Uint8Array): void {
    if (this.#socket.readyState === OPEN) this.#socket.send(frame);
  }

  hangUp(isDead = false): void {
    if (isDead && this.#socket.terminate) this.#socket.terminate();
    else this.#socket.close();
    this.#over(0);
  }

  #over(closeCode: number): void {
    clearTimeout(this.#patience);
    this.#renewal?.stop();
    this.#socket.onclose = this.#socket.onmessage = this.#socket.onopen = null;
    this.#end({ wasMet: this.#wasMet, wasOpen: this.#wasOpen, closeCode });
  }

  #took(text: unknown): void {
    this.#on.sign();
    const message = readable(text);
    if (!message) return;
    if (message.type === "session_init_ack") {
      clearTimeout(this.#patience);
      this.#wasOpen = true;
      this.#renewal?.expires(message.expires_at_ms ?? 0);
      this.#on.opened(message);
    } else if (message.type === "token_refreshed") {
      this.#renewal?.expires(message.expires_at_ms);
    } else if (this.#wasOpen) {
      this.#on.heard(message);
    } else if (message.type === "error") {
      this.#on.refused(message);
      this.hangUp();
    }
  }
}

/** Null for what is not a message, of a newer scheduler perhaps. */
function readable(text: unknown): ServerMessage | null {
  try {
    const message: unknown = typeof text === "string" ? JSON.parse(text) : null;
    return typeof message === "object" && message !== null && "type" in message ? (message as ServerMessage) : null;
  } catch {
    return null;
  }
}
