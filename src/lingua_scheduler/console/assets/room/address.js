// The address of a room: `#483920`, with `&listen` for a guest and `&token=…` from an app, or the same after `?code=`.
// Without a room: `#token=…`.

const CODE = /^\d{6}$/;

/** @typedef {{code: string, isGuest: boolean, token: string}} Invitation the code is empty if there is none */

/**
 * @param {{hash: string, search: string}} location
 * @returns {Invitation}
 */
export function readAddress({ hash, search }) {
  const query = new URLSearchParams(search);
  const parts = hash.slice(1).split("&");
  const [first = ""] = parts[0].startsWith("token=") ? [] : parts.splice(0, 1);
  const fragment = new URLSearchParams(parts.join("&"));
  const code = [first, query.get("code") ?? ""].map(digits).find((found) => CODE.test(found)) ?? "";
  const isGuest = fragment.has("listen") || query.has("listen");
  return { code, isGuest, token: fragment.get("token") ?? "" };
}

/**
 * What `readAddress` reads: a page that is loaded again has all of it.
 * @param {Invitation} invitation
 */
export function fragmentOf({ code, isGuest, token }) {
  return `#${code}${isGuest ? "&listen" : ""}${token ? `&token=${token}` : ""}`;
}

/**
 * Without the token: that one is for a single person.
 * @param {string} page
 * @param {string} code
 */
export function linkTo(page, code) {
  const url = new URL(page);
  url.search = "";
  url.hash = code;
  return url.href;
}

/**
 * What is typed or pasted as a code: `483 920`, or a whole link.
 * @param {string} text
 */
export function digits(text) {
  const inLink = /[#=](\d{6})(?!\d)/.exec(text);
  return inLink ? inLink[1] : text.replace(/[\s-]/g, "");
}

/** @param {string} text */
export function isCode(text) {
  return CODE.test(text);
}

/**
 * As people read it out: 483 920.
 * @param {string} code
 */
export function spaced(code) {
  return `${code.slice(0, 3)} ${code.slice(3)}`;
}
