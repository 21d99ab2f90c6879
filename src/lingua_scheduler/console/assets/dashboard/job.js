// One job: why it ended as it did, step by step, and what each node would have said.
import { get, part, refusal } from "./api.js";
import { h } from "./dom.js";
import { clock, milliseconds, moment, number, pairName } from "./format.js";
import { back, empty, factList, heading, Mark, nodeLink } from "./parts.js";
import { jobStateWord, problemWords } from "./telling.js";
import { t, tryT } from "./words.js";

/** @import {Explanation, JobExplanation, JobView} from "../shared/types" */
/** @import {Route} from "./routes.js" */

/** @type {Record<string, string>} */
const LEVELS = { DONE: "good", FAILED: "critical", RETRYING: "warning", CANCELLED: "notice", NO_TEXT: "notice" };
const LIVE = new Set(["CREATED", "DISPATCHED", "ACCEPTED", "RUNNING", "RETRYING"]);
const AGAIN_MS = 2000;

export class Job {
  /** @param {Route} route */
  constructor(route) {
    this.jobId = route.id;
    this.title = route.id;
    this.body = h("div", { "aria-busy": "true" }, h("p", { class: "calm" }, t("loading")));
    this.element = h("div", {}, back("jobs", t("view.jobs")), heading(route.id), this.body);
    /** @type {number | undefined} */
    this.timer = undefined;
    this.ask();
  }

  close() {
    clearTimeout(this.timer);
  }

  update() {}

  async ask() {
    try {
      const path = `v1/jobs/${part(this.jobId)}`;
      const [job, explanation] = await Promise.all([get(path), get(`${path}/explain`)]);
      this.draw(job, explanation);
      // A job that goes on is looked at again.
      if (LIVE.has(job.state)) this.timer = setTimeout(() => this.ask(), AGAIN_MS);
    } catch (error) {
      this.body.replaceChildren(problem(error));
    }
    this.body.removeAttribute("aria-busy");
  }

  /**
   * @param {JobView} job
   * @param {JobExplanation} explanation
   */
  draw(job, explanation) {
    const why = h(
      "section",
      { class: "card why", "data-level": LEVELS[job.state] ?? "unknown" },
      h("h2", {}, new Mark(LEVELS[job.state]).element, ` ${jobStateWord(job.state)}`),
      h("p", { class: "lead", lang: "en" }, explanation.headline),
      job.detail && !explanation.headline.startsWith(job.detail) ? h("p", { lang: "en" }, job.detail) : null,
    );
    const facts = factList([
      [
        t("jobs.pair"),
        asked(job),
      ],
      [t("jobs.node"), nodeLink(job.node_id)],
      [t("jobs.attempts"), number(job.attempt)],
      [t("jobs.reason"), job.reason || "–"],
      [t("job.session"), h("span", { class: "id" }, job.session_id || "–")],
      [t("job.utterance"), number(job.utterance_index)],
      [t("job.owner"), job.owner || "–"],
    ]);
    this.body.replaceChildren(
      why,
      h(
        "div",
        { class: "columns" },
        h(
          "div",
          { class: "wide" },
          timeline(job),
          ...explanations(explanation),
        ),
        h("div", { class: "side" }, h("section", { class: "card" }, h("h2", {}, t("job.facts")), facts)),
      ),
    );
  }
}

/** @param {JobView} job */
function asked({ src_lang, tgt_lang }) {
  if (!src_lang) return "–";
  const name = pairName(`${src_lang}:${tgt_lang}`);
  // Several pairs have no page together.
  return src_lang === "auto" ? name : h("a", { href: `#/pairs/${part(src_lang)}:${part(tgt_lang)}` }, name);
}

/** @param {unknown} error */
function problem(error) {
  const { status } = refusal(error);
  if (status === 404) return empty(t("job.gone"), h("p", {}, t("job.gone_step")));
  return empty(t("error.title"), h("p", { lang: status === 0 ? null : "en" }, problemWords(error)));
}

/** @param {JobView} job */
function timeline({ history }) {
  const steps = history.map((step, place) => {
    const passed = place ? t("job.after", { time: milliseconds(step.at_ms - history[place - 1].at_ms) }) : "";
    return h(
      "li",
      { "data-level": LEVELS[step.state] ?? "unknown" },
      new Mark(LEVELS[step.state] ?? "unknown").element,
      h(
        "div",
        {},
        h("strong", {}, step.state === "RETRYING" ? t("job.attempt_failed") : jobStateWord(step.state)),
        " ",
        h("span", { class: "faint" }, [step.attempt ? t("job.attempt", { n: step.attempt }) : "", passed].filter(Boolean).join(" · ")),
        step.node_id ? h("div", {}, nodeLink(step.node_id)) : null,
        step.reason ? h("div", { class: "reason" }, step.reason) : null,
      ),
      h("time", { datetime: new Date(step.at_ms).toISOString(), title: moment(step.at_ms) }, clock(step.at_ms)),
    );
  });
  return h(
    "section",
    { class: "card" },
    h("h2", {}, t("job.history")),
    steps.length ? h("ol", { class: "timeline" }, steps) : h("p", { class: "calm" }, t("job.no_history")),
  );
}

/**
 * What was found then and what is found now, without what is said already.
 * @param {JobExplanation} explanation
 */
function explanations({ headline, then, now }) {
  const isUnchanged = then && now && JSON.stringify(then.candidates) === JSON.stringify(now.candidates);
  return [
    then && !isUnchanged ? explained(t("job.then"), then, [headline]) : null,
    now ? explained(t("job.now"), now, [headline, then && !isUnchanged ? then.headline : ""]) : null,
  ];
}

/**
 * @param {string} title
 * @param {Explanation} explanation
 * @param {string[]} said
 */
function explained(title, explanation, said) {
  const counts = Object.entries(explanation.counts).map(([verdict, count]) =>
    h("span", { class: "chip" }, `${verdictWord(verdict)}: ${number(count)}`),
  );
  const rows = explanation.candidates.map((candidate) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, nodeLink(candidate.node_id)),
      h("td", {}, verdictWord(candidate.verdict)),
      h("td", { lang: "en" }, candidate.detail),
    ),
  );
  const heads = ["jobs.node", "job.verdict", "job.detail"].map((key) => h("th", { scope: "col" }, t(key)));
  return h(
    "section",
    { class: "card" },
    h(
      "h2",
      {},
      title,
      " ",
      h("span", { class: "faint" }, explanation.looked_at_ms ? clock(explanation.looked_at_ms) : ""),
    ),
    said.some((words) => words.startsWith(explanation.headline)) ? null : h("p", { lang: "en" }, explanation.headline),
    counts.length ? h("p", { class: "chips" }, counts) : null,
    rows.length
      ? h(
          "div",
          { class: "scroll", tabindex: "0", role: "region", "aria-label": title },
          h("table", { class: "table" }, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows)),
        )
      : null,
  );
}

/** @param {string} verdict */
function verdictWord(verdict) {
  return tryT(`candidate.${verdict}`, {}) ?? verdict;
}
