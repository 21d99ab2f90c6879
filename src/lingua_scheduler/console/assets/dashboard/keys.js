// The keyboard: / filters, j and k walk, g and a letter go, ? tells.
import { may } from "./person.js";
import { go } from "./routes.js";

/** @type {Record<string, string>} */
const GOES = { o: "overview", p: "pairs", n: "nodes", j: "jobs", i: "instances", k: "access" };
const PATIENCE_MS = 1500;

/** @import {View} from "./routes.js" */
/** @typedef {{view: () => View, onHelp: () => void}} Handlers */

/** @param {Handlers} handlers */
export function listen({ view, onHelp }) {
  let wantsToGo = -Infinity;
  document.addEventListener("keydown", (event) => {
    if (isElsewhere(event)) return;
    const mayGo = performance.now() - wantsToGo < PATIENCE_MS;
    wantsToGo = -Infinity;
    if (event.key === "Escape") leave();
    else if (isTyped(event)) typed(event, view());
    else if (mayGo && event.key in GOES) go(GOES[event.key] === "access" && !may("keys:read") ? "audit" : GOES[event.key]);
    else if (event.key === "g") wantsToGo = performance.now();
    else act(event, { view, onHelp });
  });
}

/**
 * With a modifier it is the browser's; a dialog has keys of its own.
 * @param {KeyboardEvent} event
 */
function isElsewhere(event) {
  return event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") !== null;
}

/** @param {KeyboardEvent} event */
function isTyped({ target }) {
  return target instanceof Element && target.matches("input, select, textarea");
}

/**
 * Out of the filter the arrow leads into the rows.
 * @param {KeyboardEvent} event
 * @param {View} view
 */
function typed(event, view) {
  const isFilter = event.target instanceof Element && event.target.matches("[data-filter]");
  if (isFilter && event.key === "ArrowDown") walk(event, view, 1);
}

/**
 * @param {KeyboardEvent} event
 * @param {Handlers} handlers
 */
function act(event, { view, onHelp }) {
  if (event.key === "/") filter(event);
  else if (event.key === "?") onHelp();
  else if (event.key === "j") walk(event, view(), 1);
  else if (event.key === "k") walk(event, view(), -1);
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") arrow(event, view());
}

/**
 * Arrows scroll the page, unless a row has the focus.
 * @param {KeyboardEvent} event
 * @param {View} view
 */
function arrow(event, view) {
  const isInRows = event.target instanceof Element && event.target.closest("table, [role=table]");
  if (isInRows) walk(event, view, event.key === "ArrowDown" ? 1 : -1);
}

/**
 * @param {KeyboardEvent} event
 * @param {View} view
 * @param {number} step
 */
function walk(event, view, step) {
  if (!view.move) return;
  event.preventDefault();
  view.move(step);
}

/** @param {KeyboardEvent} event */
function filter(event) {
  event.preventDefault();
  const field = filterOf();
  if (field) field.select();
  else {
    go("nodes");
    addEventListener(
      "hashchange",
      () => requestAnimationFrame(() => filterOf()?.focus()),
      { once: true },
    );
  }
}

function filterOf() {
  const field = document.querySelector("[data-filter]");
  return field instanceof HTMLInputElement ? field : null;
}

/** First out of the filter, then out of the detail. */
function leave() {
  const field = filterOf();
  if (field && field === document.activeElement) {
    if (field.value) {
      field.value = "";
      field.dispatchEvent(new Event("input"));
    } else field.blur();
    return;
  }
  const back = document.querySelector("a.back");
  if (back instanceof HTMLElement) back.click();
}
