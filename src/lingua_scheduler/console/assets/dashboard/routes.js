// Hash routes: every view, and everything chosen in it, has an address that can be sent to a colleague.

export function current() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").filter(Boolean).map(decoded);
  return { name: parts[0] ?? "overview", id: parts[1] ?? "", query: new URLSearchParams(query) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // somebody typed a lone %
  }
}

export function href(name, id = "", query = {}) {
  const chosen = Object.entries(query).filter(([, value]) => value !== "" && value !== null);
  const search = chosen.length ? `?${new URLSearchParams(chosen)}` : "";
  return `#/${name}${id ? `/${encodeURIComponent(id).replaceAll("%3A", ":")}` : ""}${search}`;
}

export function go(name, id = "", query = {}) {
  location.hash = href(name, id, query);
}

/** The same view, other choices: no step in the history, nothing is drawn anew. */
export function note(name, id, query) {
  history.replaceState(null, "", href(name, id, query));
}
