// Why a person cannot talk: a pure function of the known state, without the DOM.

/** @import {Offered} from "./speakers.js" */
/** @import {Word} from "./words.js" */

/**
 * The word for it; "" before anything is known, null when nothing is in the way.
 * @param {{source: string, target: string}} pair
 * @param {Offered & {isKnown: boolean, isReachable: boolean, isDenied?: boolean}} offers
 * @param {boolean} hasMicrophone whether the browser gives this page one at all
 * @param {boolean} isFace whether another person talks too
 * @returns {Word | "" | null}
 */
export function obstacle({ source, target }, offers, hasMicrophone, isFace) {
  if (!hasMicrophone) return "mic_insecure";
  if (!offers.isKnown) return unknown(offers);
  if (!offers.languages.length) return "no_nodes";
  if (source === target) return "same";
  const served = offers.of(source, target);
  if (served === "speech") return null;
  if (served === "text") return "text_only";
  return isFace && offers.of(target, source) !== "none" ? "listen_only" : "unserved";
}

/**
 * Why it is not known what is offered.
 * @param {{isReachable: boolean, isDenied?: boolean}} offers
 */
function unknown({ isReachable, isDenied }) {
  if (isDenied) return "needs_login";
  return isReachable ? "" : "unreachable";
}

/**
 * What starts a node for this scheduler: it connects to the address of this page.
 * @param {{protocol: string, host: string}} page
 */
export function nodeCommand({ protocol, host }) {
  return `lingua node --url ${protocol === "https:" ? "wss" : "ws"}://${host}`;
}

/**
 * Whether it is no fault: this person can read and listen, and only cannot talk.
 * @param {Word | "" | null} hindrance
 */
export function isCalm(hindrance) {
  return hindrance === "listen_only";
}
