// The keyboard: / filters, j and k walk, g and a letter go, ? tells.
import { go } from "./routes.js";

const GOES = { o: "overview", p: "pairs", n: "nodes", j: "jobs", i: "instances" };
const PATIENCE_MS = 1500;

export function listen({ view, onHelp }) {
  let wantsToGo = -Infinity;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") {
      leave();
      return;
    }
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "ArrowDown" && event.target.matches("[data-filter]")) walk(event, view(), 1);
      return;
    }
    if (performance.now() - wantsToGo < PATIENCE_MS && event.key in GOES) {
      wantsToGo = -Infinity;
      go(GOES[event.key]);
      return;
    }
    wantsToGo = event.key === "g" ? performance.now() : -Infinity;
    if (event.key === "/") filter(event);
    else if (event.key === "?") onHelp();
    else if (event.key === "j") walk(event, view(), 1);
    else if (event.key === "k") walk(event, view(), -1);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") arrow(event, view());
  });
}

/** Arrows scroll the page, unless somebody already walks through rows. */
function arrow(event, view) {
  if (event.target.closest("table, [role=table]")) walk(event, view, event.key === "ArrowDown" ? 1 : -1);
}

function walk(event, view, step) {
  if (!view?.move) return;
  event.preventDefault();
  view.move(step);
}

function filter(event) {
  event.preventDefault();
  const field = document.querySelector("[data-filter]");
  if (field) field.select();
  else {
    go("nodes");
    addEventListener(
      "hashchange",
      () => requestAnimationFrame(() => document.querySelector("[data-filter]")?.focus()),
      { once: true },
    );
  }
}

/** First out of the filter, then out of the detail. */
function leave() {
  const field = document.activeElement;
  if (field?.matches("[data-filter]")) {
    if (field.value) {
      field.value = "";
      field.dispatchEvent(new Event("input"));
    } else field.blur();
    return;
  }
  document.querySelector("a.back")?.click();
}
