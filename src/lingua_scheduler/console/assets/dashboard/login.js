// The login: shown instead of everything else while the scheduler does not know who asks.
import { refusal } from "./api.js";
import { h, setText, show } from "./dom.js";
import { command, heading } from "./parts.js";
import { logIn, offers } from "./person.js";
import { problemWords } from "./telling.js";
import { t } from "./words.js";

export class Login {
  /**
   * @param {string} why what went before, in words; empty for the first time
   * @param {() => void} onDone
   */
  constructor(why, onDone) {
    this.title = t("login.title");
    this.onDone = onDone;
    this.problem = h("p", { class: "problem", role: "alert" }, why);
    this.field = h("input", {
      id: "login-key",
      type: "password",
      required: true,
      autocomplete: "current-password",
      spellcheck: "false",
      placeholder: "lk_op_…",
    });
    this.button = h("button", { type: "submit", class: "primary" }, t("login.log_in"));
    this.provider = h("a", { class: "button primary", href: "v1/login/oidc" });
    show(this.provider, false);
    this.element = h(
      "section",
      { class: "card login" },
      heading(t("login.title")),
      this.provider,
      h("p", {}, t("login.words")),
      h(
        "form",
        { submit: (event) => this.submit(event) },
        h("label", { for: "login-key" }, t("login.key")),
        this.field,
        this.problem,
        this.button,
      ),
      h("p", { class: "calm" }, t("login.link")),
      command("lingua dashboard"),
    );
    this.offer();
  }

  /** Other ways to log in, if there are any. */
  async offer() {
    const { oidc } = await offers();
    setText(this.provider, t("login.sign_in_with", { provider: oidc }));
    show(this.provider, oidc !== "");
  }

  update() {}

  /** @param {Event} event */
  async submit(event) {
    event.preventDefault();
    this.button.disabled = true;
    setText(this.problem, "");
    try {
      await logIn({ key: this.field.value.trim() });
      // The browser must not offer to keep it, nor the page.
      this.field.value = "";
      this.onDone();
    } catch (error) {
      setText(this.problem, refusal(error).status === 401 ? t("login.wrong") : problemWords(error));
    } finally {
      this.button.disabled = false;
    }
  }
}

/** @param {unknown} error why a link did not work */
export function linkProblem(error) {
  return refusal(error).status === 401 ? t("login.used") : problemWords(error);
}
