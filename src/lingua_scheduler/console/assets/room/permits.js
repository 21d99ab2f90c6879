// What the person may do in rooms, by the token that an app gave. Pure.

/** @import {WhoAmI} from "../shared/types" */

/**
 * @typedef {object} Permit
 * @property {"" | "no_rooms"} denial a word of the page
 * @property {boolean} mayCreate
 * @property {string} code the only room; empty: any
 * @property {boolean} isListener may only listen
 */

/**
 * @param {WhoAmI | null} holder null: without such a token the page may do everything
 * @returns {Permit}
 */
export function permitOf(holder) {
  if (!holder) return { denial: "", mayCreate: true, code: "", isListener: false };
  const { scopes, room_code: code = "", is_listener: isListener = false } = holder;
  return {
    denial: scopes.includes("room:join") ? "" : "no_rooms",
    mayCreate: scopes.includes("room:create"),
    code,
    isListener,
  };
}
