// Questions and the list of keys, as real dialogs: Escape closes them, and focus goes back to where it was.
import { h } from "./dom.js";
import { mayLookAtAccess } from "./person.js";
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
 * `act` is tried when the person says yes; what it throws is shown, and may be tried again. `onProblem` may show it
 * elsewhere, and says what is left to say here. In a form Enter means yes.
 * @typedef {object} Question
 * @property {string} title
 * @property {Child[]} body
 * @property {string} yes
 * @property {() => Promise<unknown>} act
 * @property {(error: unknown) => string} [onProblem]
 * @property {boolean} [isForm]
 * @property {boolean} [isDangerous] it cannot be undone
 */

/** @param {Question} question */
export function confirm({ title, body, yes, act, onProblem = problemWords, isForm = false, isDangerous = false }) {
  const problem = h("p", { class: "problem", role: "alert" });
  let submit = () => {};
  const dialog = open(title, [...body, problem], (close) => {
    const agree = h(
      "button",
      {
        type: "button",
        class: isDangerous ? "primary danger" : "primary",
        click: async () => {
          agree.disabled = true;
          problem.textContent = "";
          try {
            await act();
            close();
          } catch (error) {
            agree.disabled = false;
            problem.textContent = onProblem(error);
          }
        },
      },
      yes,
    );
    submit = () => !agree.disabled && agree.click();
    return [h("button", { type: "button", autofocus: !isForm, click: close }, t("cancel")), agree];
  });
  if (!isForm) return;
  dialog.classList.add("wide");
  dialog.addEventListener("keydown", (event) => isEntered(event) && submit());
}

/** @param {KeyboardEvent} event */
function isEntered({ key, target }) {
  return key === "Enter" && target instanceof HTMLInputElement && target.type !== "checkbox";
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
const GUARDED = "view.access";

export function showKeys() {
  const shown = KEYS.filter(([, meaning]) => meaning !== GUARDED || mayLookAtAccess());
  const rows = shown.map(([keys, meaning]) =>
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
