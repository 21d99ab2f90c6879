// A client of the Lingua Scheduler: connect, speak, and read translations.
import { type ConnectOptions, Session } from "./session.js";

export * from "./errors.js";
export type { Token } from "./access.js";
export type { SessionWishes, UtteranceOptions } from "./first-words.js";
export type { Audio } from "./frames.js";
export type * from "./messages.js";
export type { Gap, Partial, Progress, Result, Translation } from "./results.js";
export { Session, type ConnectOptions, type Extension, type SessionEvents, type SessionState } from "./session.js";
export type { WebSocketClass, WebSocketLike } from "./socket.js";

/** Opens a session. Throws AccessDenied, TokenNotFetched, Unreachable or SessionFailed. */
export function connect(options: ConnectOptions): Promise<Session> {
  return new Session(options).opened();
}
