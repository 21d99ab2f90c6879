// Questions and the list of keys, as real dialogs: Escape closes them, and focus goes back to where it was.
import { h } from "./dom.js";
import { problemWords } from "./telling.js";
import { t } from "./words.js";

/** @import {Child} from "./dom.js" */

let opened = 0;

/**
 * @param {string} title
 * @param {Child[]} body
 * @param {(close: () => void) => Child[]} actions
 */
function open(title, body, actions) {
  opened += 1;
  const id = `dialog-${opened}`;
  // A question about what is no longer shown is not asked.
  const leave = () => dialog.close();
  const dialog = h(
    "dialog",
    {
      "aria-labelledby": id,
      close: () => {
        removeEventListener("hashchange", leave);
        dialog.remove();
      },
    },
    h("h2", { id }, title),
    h("div", { class: "dialog-body" }, body),
    h(
      "div",
      { class: "actions" },
      actions(leave),
    ),
  );
  document.body.append(dialog);
  addEventListener("hashchange", leave);
  dialog.showModal();
  return dialog;
}

/**
 * `act` is tried when the person says yes; what it throws is shown, and may be tried again.
 * @param {{title: string, body: Child[], yes: string, act: () => Promise<unknown>}} question
 */
export function confirm({ title, body, yes, act }) {
  const problem = h("p", { class: "problem", role: "alert" });
  open(title, [...body, problem], (close) => {
    const agree = h(
      "button",
      {
        type: "button",
        class: "primary",
        click: async () => {
          agree.disabled = true;
          problem.textContent = "";
          try {
            await act();
            close();
          } catch (error) {
            problem.textContent = problemWords(error);
            agree.disabled = false;
          }
        },
      },
      yes,
    );
    return [h("button", { type: "button", autofocus: true, click: close }, t("cancel")), agree];
  });
}

/**
 * Something to read, which stays until the person closes it.
 * @param {string} title
 * @param {Child[]} body
 */
export function tell(title, body) {
  return open(title, body, (close) => [h("button", { type: "button", class: "primary", click: close }, t("close"))]);
}

const KEYS = [
  ["/", "keys.filter"],
  ["j ↓", "keys.next"],
  ["k ↑", "keys.previous"],
  ["Enter", "keys.open"],
  ["Esc", "keys.back"],
  ["g o", "view.overview"],
  ["g p", "view.pairs"],
  ["g n", "view.nodes"],
  ["g j", "view.jobs"],
  ["g i", "view.instances"],
  ["g k", "view.access"],
  ["?", "keys.help"],
];

export function showKeys() {
  const rows = KEYS.map(([keys, meaning]) =>
    h(
      "div",
      {},
      h(
        "dt",
        {},
        keys.split(" ").map((key) => h("kbd", {}, key)),
      ),
      h("dd", {}, t(meaning)),
    ),
  );
  open(t("keys.title"), [h("dl", { class: "keys" }, rows)], (close) => [
    h("button", { type: "button", autofocus: true, click: close }, t("close")),
  ]);
}
