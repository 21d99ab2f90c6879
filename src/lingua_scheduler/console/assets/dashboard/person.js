// Who uses this page: logged in with a cookie that the page cannot read, or known without a login.
import { get, post, refusal } from "./api.js";

/** @import {WhoAmI} from "../shared/types" */

const CODE = /^#code=([\w-]+)$/;
const DENIED = 401;

/** @type {WhoAmI | null} */
let who = null;

export function person() {
  return who;
}

/**
 * Whether the scheduler would do it for this person. Buttons for anything else are not shown.
 * @param {string} scope
 */
export function may(scope) {
  return who !== null && who.scopes.includes(scope);
}

/** Whether there is anything for them behind Access: keys, nodes that join, or the audit log. */
export function mayLookAtAccess() {
  return may("keys:read") || may("audit:read");
}

/**
 * Asks the scheduler. False: a login is needed; who they were before counts while it does not answer.
 * @returns {Promise<boolean>}
 */
export async function learn() {
  try {
    who = await get("v1/whoami");
  } catch (error) {
    if (refusal(error).status === DENIED) {
      who = null;
      return false;
    }
  }
  return true;
}

/** The one-time code of a login link. It leaves the address bar and the history at once. */
export function takeCode() {
  const code = CODE.exec(location.hash)?.[1] ?? "";
  if (code) history.replaceState(null, "", location.pathname + location.search);
  return code;
}

/**
 * How people may log in besides a key. Without an answer there is the key.
 * @returns {Promise<{oidc: string}>}
 */
export function offers() {
  return get("v1/login/offers").catch(() => ({ oidc: "" }));
}

/** @param {{key: string} | {code: string}} secret */
export function logIn(secret) {
  return post("v1/login", secret);
}

export function logOut() {
  return post("v1/logout");
}
