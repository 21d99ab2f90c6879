// Draws how others come into the room: the code, the link, and the link as a QR code.
import { button, find } from "../shared/elements.js";
import { linkTo, spaced } from "./address.js";
import { qrCode } from "./qr.js";
import { say } from "./words.js";

// Light modules that a reader needs around the code.
const QUIET_ZONE = 4;

export class InviteView {
  #link = find(HTMLInputElement, "#link");
  #copied = find(HTMLElement, "#copied");

  constructor() {
    button("#copy").addEventListener("click", () => this.#copy());
    this.#link.addEventListener("focus", () => this.#link.select());
  }

  /**
   * @param {string} code
   * @param {boolean} needsToken the link has none: that of this person is for no one else
   */
  show(code, needsToken) {
    find(HTMLElement, "#needs-own").hidden = !needsToken;
    const link = linkTo(location.href, code);
    this.#link.value = link;
    this.#copied.textContent = "";
    find(HTMLElement, "#digits").textContent = spaced(code);
    draw(find(SVGSVGElement, "#qr"), link);
  }

  async #copy() {
    try {
      await navigator.clipboard.writeText(this.#link.value);
      this.#copied.textContent = say("copied");
    } catch {
      this.#link.focus();
      this.#copied.textContent = say("copy_failed");
    }
  }
}

/**
 * @param {SVGSVGElement} svg
 * @param {string} text
 */
function draw(svg, text) {
  const rows = qrCode(text);
  svg.toggleAttribute("hidden", rows === null);
  if (!rows) return;
  const size = rows.length + 2 * QUIET_ZONE;
  svg.setAttribute("viewBox", `0 0 ${size} ${size}`);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const module = (/** @type {number} */ x, /** @type {number} */ y) => `M${x + QUIET_ZONE} ${y + QUIET_ZONE}h1v1h-1z`;
  const dark = rows.flatMap((cells, y) => cells.flatMap((cell, x) => (cell ? [module(x, y)] : [])));
  path.setAttribute("d", dark.join(""));
  svg.replaceChildren(path);
}
