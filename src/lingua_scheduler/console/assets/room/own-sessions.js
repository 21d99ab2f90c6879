// The sessions in which this tab was in rooms: after the page was loaded again, what one said before is still one's own.

const NAME = "lingua.room.sessions";
const MOST = 50;

/** @returns {string[]} */
export function ownSessions() {
  try {
    const kept = JSON.parse(sessionStorage.getItem(NAME) ?? "[]");
    return Array.isArray(kept) ? kept.filter((id) => typeof id === "string").slice(-MOST) : [];
  } catch {
    return [];
  }
}

/** @param {string} id */
export function keepOwnSession(id) {
  try {
    const others = ownSessions().filter((one) => one !== id);
    sessionStorage.setItem(NAME, JSON.stringify([...others, id].slice(-MOST)));
  } catch {
    // Storage is full or forbidden: the page still works.
  }
}
