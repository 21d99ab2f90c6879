// What can go wrong, as classes: every error that this package throws is a LinguaError with a `code`.

/** `code` is a word of docs/errors.md, or one of this package; `message` is a sentence. */
export class LinguaError extends Error {
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

/** The scheduler does not accept the key or token, or no longer: it must not be used again. */
export class AccessDenied extends LinguaError {
  /** Of HTTP, or the close code of the WebSocket (4003, 4004, 4007); 0 if the scheduler was not asked. */
  readonly status: number;

  constructor(code: string, message: string, status = 0) {
    super(code, message);
    this.status = status;
  }
}

/** The function given as `token` failed; its error is the `cause`. */
export class TokenNotFetched extends LinguaError {
  constructor(cause: unknown) {
    super("TOKEN_NOT_FETCHED", `the function given as token failed: ${cause instanceof Error ? cause.message : String(cause)}`, { cause });
  }
}

/** No scheduler answers at the address. */
export class Unreachable extends LinguaError {
  constructor(message: string) {
    super("UNREACHABLE", message);
  }
}

/** The scheduler refused the session, or the session has ended. */
export class SessionFailed extends LinguaError {
  /** What the scheduler said of it; empty if it said nothing. */
  readonly said: string;

  constructor(code: string, message: string, said = "", options?: ErrorOptions) {
    super(code, message, options);
    this.said = said;
  }
}

/** More calls of `send` wait than are kept: await each, or drop speech. */
export class BufferFull extends LinguaError {
  constructor(message: string) {
    super("BUFFER_FULL", message);
  }
}

/** A room could not be entered, or something in it is not allowed; `code` as in docs/rooms.md. */
export class RoomRefused extends LinguaError {}

// Close codes after which the scheduler does not want to see the same credential again.
const DISMISSALS = new Map([
  [4003, ["UNAUTHENTICATED", "the scheduler did not accept the new token"]],
  [4004, ["REVOKED", "the key or token was revoked"]],
  [4007, ["GUESSING", "the connection named sessions of other connections"]],
]);

/** Undefined if the session may be resumed after this close code. */
export function dismissal(closeCode: number): AccessDenied | undefined {
  const [code, message] = DISMISSALS.get(closeCode) ?? [];
  return code && message ? new AccessDenied(code, message, closeCode) : undefined;
}
