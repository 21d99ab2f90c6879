// A secret is shown once: the scheduler itself keeps only a digest of it.
import { tell } from "./dialogs.js";
import { h, setText } from "./dom.js";
import { t } from "./words.js";

/** @typedef {{label: string, text: string, hint?: string}} Secret */

/**
 * @param {string} title
 * @param {Secret[]} secrets
 */
export function showOnce(title, secrets) {
  tell(title, [h("p", { class: "warn" }, t("access.once")), ...secrets.map(part)]);
}

/** @param {Secret} secret */
function part({ label, text, hint = "" }) {
  const secret = h("code", { class: "secret", tabindex: "0", "aria-label": label }, text);
  const copied = h("span", { role: "status" });
  const copy = async () => {
    getSelection()?.selectAllChildren(secret);
    try {
      await navigator.clipboard.writeText(text);
      setText(copied, t("access.copied"));
    } catch {
      // The browser does not let this page write there; the text is selected at least.
      setText(copied, t("access.copy_yourself"));
    }
  };
  const button = h("button", { type: "button", "aria-label": `${t("access.copy")}: ${label}`, click: copy }, t("access.copy"));
  return h(
    "div",
    { class: "secret-part" },
    h("p", { class: "secret-label" }, label),
    secret,
    h("p", { class: "copy" }, button, copied),
    hint && h("p", { class: "hint" }, hint),
  );
}
