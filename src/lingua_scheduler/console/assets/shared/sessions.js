// How a page opens a session, and lets one go: it waits for the scheduler as long as it is open.
import { AccessDenied, Session, SessionFailed } from "./client.js";

/** @import {ConnectOptions, LinguaError, SessionState} from "./client.js" */
/** @import {Shows} from "./pass.js" */
/** @typedef {Exclude<SessionState, "ended"> | "refused"} LinkState */

const PARTIALS_EVERY_MS = 500;
const CLOSE_WITHIN_MS = 30_000;

/**
 * @param {URL} url
 * @param {Pick<ConnectOptions, "source" | "target"> & {client: string}} wishes client: which page this is
 * @param {Shows} [pass]
 */
export function openSession(url, { source, target, client }, pass) {
  return new Session({
    ...{ url: url.href, source, target, partials: true, openWithinMs: Infinity, giveUpAfterMs: Infinity },
    ...(pass && { token: pass.credential }),
    init: { client_version: client, partial_update_interval_ms: PARTIALS_EVERY_MS },
  });
}

/**
 * Nothing more will be said; what was said is still answered.
 * @param {Session} session
 */
export function finish(session) {
  // It has ended already.
  session.finish().catch(() => {});
  setTimeout(() => session.close(), CLOSE_WITHIN_MS);
}

/**
 * Why a session has ended, as the scheduler said it if it did.
 * @param {LinguaError} error
 * @param {Shows} [pass]
 */
export function whyRefused(error, pass) {
  if (error instanceof AccessDenied) pass?.refused(error);
  return error instanceof SessionFailed && error.said ? error.said : error.message;
}
