// Local storage: what a person has chosen, kept in this browser alone. A browser that keeps nothing only forgets.

const PREFIX = "lingua.";

/**
 * @param {string} name
 * @param {string | number} value
 */
export function remember(name, value) {
  try {
    localStorage.setItem(PREFIX + name, String(value));
  } catch {
    // Storage is full or forbidden: the page still works.
  }
}

/**
 * @param {string} name
 * @returns {string | null}
 */
export function recall(name) {
  try {
    return localStorage.getItem(PREFIX + name);
  } catch {
    return null;
  }
}
