// The scheduler's HTTP operations; a refusal becomes an error with the scheduler's own words.

const PATIENCE_MS = 10_000;
const DENIED = [401, 403];

/** Tells of a `denied` request: the login has ended, or has other rights than the page was told. */
export const access = new EventTarget();

export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} code
   * @param {string} detail
   */
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

/**
 * @param {string} path
 * @returns {Promise<any>}
 */
export function get(path) {
  return ask("GET", path);
}

/**
 * @param {string} path
 * @param {Record<string, unknown>} [body]
 * @returns {Promise<any>}
 */
export function post(path, body) {
  return ask("POST", path, body);
}

/**
 * @param {string} method
 * @param {string} path
 * @param {Record<string, unknown>} [body]
 * @returns {Promise<any>}
 */
async function ask(method, path, body) {
  /** @type {RequestInit} */
  const request = { method, signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store" };
  if (body) Object.assign(request, { body: JSON.stringify(body), headers: { "Content-Type": "application/json" } });
  let response;
  try {
    response = await fetch(path, request);
  } catch {
    throw new Refused(0, "AWAY", "");
  }
  const answer = await response.json().catch(() => ({}));
  if (DENIED.includes(response.status)) access.dispatchEvent(new Event("denied"));
  if (!response.ok) throw new Refused(response.status, answer.error ?? "", answer.detail ?? response.statusText);
  return answer;
}

/**
 * Any thrown value as a refusal; status 0 means that there was no response.
 * @param {unknown} error
 * @returns {Refused}
 */
export function refusal(error) {
  return error instanceof Refused ? error : new Refused(-1, "", error instanceof Error ? error.message : String(error));
}

/**
 * A part of a path that came from a peer.
 * @param {string} text
 */
export function part(text) {
  return encodeURIComponent(text);
}
