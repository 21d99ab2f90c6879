// The scheduler's HTTP operations; a refusal becomes an error with the scheduler's own words.

const PATIENCE_MS = 10_000;

export class Refused extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

export function get(path) {
  return ask("GET", path);
}

export function post(path) {
  return ask("POST", path);
}

async function ask(method, path) {
  let response;
  try {
    response = await fetch(path, { method, signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store" });
  } catch {
    throw new Refused(0, "AWAY", "");
  }
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, body.error ?? "", body.detail ?? response.statusText);
  return body;
}

/** A part of a path that came from a peer. */
export function part(text) {
  return encodeURIComponent(text);
}
