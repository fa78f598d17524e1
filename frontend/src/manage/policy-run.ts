/** What a dry run found: what would go that does not go now, what goes sooner or later, what stays. Called by policies.ts; pure. */

import type { Run } from "../state/manage";
import type { State } from "../state/types";
import { ahead, exactly, readable } from "../state/words";
import { h, type VNode } from "../views/dom";
import { becomes, changesOf, type Change } from "./terms";

const mostShown = 200;
const marks = { new: ["new", "bad"], sooner: ["sooner", "busy"], later: ["later", "ok"], "no longer": ["no longer", "ok"] } as const;

export function runResult(state: State, run: Run): VNode {
  const changes = changesOf(run.now, run.then);
  return h("section", { class: "run", "aria-label": "What it would do", key: "run", tabindex: "-1", mount: (element) => element.focus() },
    h("p", { role: "status" }, h("strong", null, summary(changes, run)), !run.complete && " There is more than the run counts; what is beyond it is not shown."),
    changes.length > 0 && h("div", { class: "card" }, h("table", { class: "workspaces run-table" },
      h("thead", null, h("tr", null, ["", "What", "Whose", "What happens", "When", "Why"].map((words) => h("th", { scope: "col", key: words || "mark" }, words || h("span", { class: "unseen" }, "Change"))))),
      h("tbody", null, changes.slice(0, mostShown).map((change) => row(state, change))))),
    changes.length > mostShown && h("p", { class: "hint" }, `And ${changes.length - mostShown} more.`));
}

function summary(changes: Change[], run: Run): string {
  const count = (how: Change["how"]): number => changes.filter((one) => one.how === how).length;
  const parts = ([[count("new"), "more than now"], [count("sooner"), "sooner"], [count("later"), "later"], [count("no longer"), "no longer"]] as const)
    .filter(([many]) => many > 0).map(([many, words]) => `${many} ${words}`);
  const same = run.then.length - count("new") - count("sooner") - count("later");
  if (parts.length === 0) return `Nothing changes within ${run.days} days.`;
  return `Within ${run.days} days: ${parts.join(", ")}; ${same} as now.`;
}

function row(state: State, { going, how }: Change): VNode {
  const [word, tone] = marks[how];
  const removes = going.to === "deleted" || going.to === "purged";
  return h("tr", { key: `${going.kind}-${going.id}-${going.to}`, "data-change": how },
    h("td", null, h("span", { class: `tone-${how === "new" && !removes ? "busy" : tone}` }, word)),
    h("td", { class: "cell-name" }, going.kind === "workspace"
      ? h("a", { href: `/workspaces/${going.workspace}` }, readable(going.name))
      : h("span", null, "Checkpoint ", readable(going.name || going.id))),
    h("td", null, readable(going.owner)),
    h("td", null, becomes(going.to)),
    h("td", null, h("time", { datetime: going.at, title: exactly(going.at) }, Date.parse(going.at) <= state.now ? "at once" : ahead(going.at, state.now))),
    h("td", { class: "muted" }, readable(going.because).replace(/_s$/, "").replaceAll("_", " ")));
}
