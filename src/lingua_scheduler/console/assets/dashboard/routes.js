// Hash routes: every view, and everything chosen in it, has an address that can be sent to a colleague.

/** @import {Changed} from "./world.js" */

/**
 * What is shown at a route.
 * @typedef {object} View
 * @property {string} title
 * @property {Element} element
 * @property {(changed: Changed) => void} update
 * @property {() => void} [tick] once a second
 * @property {() => void} [close]
 * @property {(step: number) => void} [move] to another row
 */
/** @typedef {{name: string, id: string, query: URLSearchParams}} Route */
/** @typedef {Record<string, string | null>} Query */

/** @returns {Route} */
export function current() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { name: parts[0] ?? "overview", id: parts[1] ?? "", query: new URLSearchParams(query) };
}

/** @param {string} text */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // a lone % in the address
  }
}

/**
 * @param {string} name
 * @param {string} [id]
 * @param {Query} [query]
 */
export function href(name, id = "", query = {}) {
  const chosen = Object.entries(query).flatMap(([key, value]) => (value ? [[key, value]] : []));
  const search = chosen.length ? `?${new URLSearchParams(chosen)}` : "";
  return `#/${name}${id ? `/${encodeURIComponent(id).replaceAll("%3A", ":")}` : ""}${search}`;
}

/**
 * @param {string} name
 * @param {string} [id]
 * @param {Query} [query]
 */
export function go(name, id = "", query = {}) {
  location.hash = href(name, id, query);
}

/**
 * The same view, other choices: no step in the history, nothing is drawn anew.
 * @param {string} name
 * @param {string} id
 * @param {Query} query
 */
export function note(name, id, query) {
  history.replaceState(null, "", href(name, id, query));
}
