/** Activity: one row a step, newest first, actor and time, outcome by icon and word; a step opens to its output. */

import { readExec } from "../api/execs";
import type { Context } from "../commands/context";
import type { Exec, State } from "../state/types";
import { stepsOf, type Step } from "../state/steps";
import { readable } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { icon } from "./icons";
import { when } from "./parts";

export function steps(state: State, context: Context): VNode {
  const rows = stepsOf(state.events);
  return rows.length > 0
    ? h("ol", { class: "steps", tabindex: "0", "aria-label": "Steps, newest first" }, rows.map((step) => row(state, context, step)))
    : h("p", { class: "hint inset" }, state.connection === "live" ? "Nothing has happened yet." : "");
}

function row(state: State, context: Context, step: Step): VNode {
  const open = state.expanded[step.execId];
  return h("li", { key: step.key, class: "step" },
    step.execId
      ? h("button", { type: "button", class: "step-line", "aria-expanded": open ? "true" : "false", onclick: () => void flip(state, context, step.execId) }, line(state, step))
      : h("div", { class: "step-line" }, line(state, step)),
    open && output(open));
}

function line(state: State, step: Step): Child[] {
  return [
    h("span", { class: "step-what" },
      step.text && h("span", null, step.text),
      step.code && h("code", { title: step.code }, step.code)),
    h("span", { class: "step-foot" },
      step.outcome && h("span", { class: `outcome tone-${step.outcome.tone}` }, icon(step.outcome.tone), step.outcome.text),
      step.detail && h("span", { class: "step-detail" }, step.detail),
      h("span", { class: "step-actor" }, who(state, step)),
      when(step.at, state.now)),
  ];
}

function who(state: State, step: Step): string {
  return step.actor.type === "user" && step.actor.name === state.page.user ? "you" : readable(step.actor.name);
}

async function flip(state: State, context: Context, id: string): Promise<void> {
  if (state.expanded[id]) return context.store.dispatch({ type: "step.folded", id });
  context.store.dispatch({ type: "step.expanded", id });
  const exec = await readExec(state.page.workspace, id).catch(() => "failed" as const);
  context.store.dispatch({ type: "step.read", id, exec });
}

/** What is shown of an output: its end, because that is where outcomes are explained. */
const shownCharacters = 8000;

function output(exec: Exec | "loading" | "failed"): Child {
  if (exec === "loading") return null;
  if (exec === "failed") return h("p", { class: "problem inset" }, "Its output cannot be read now.");
  const streams: [string, string, boolean][] = [
    ["Output", exec.stdout ?? "", exec.stdout_truncated ?? false], ["Errors", exec.stderr ?? "", exec.stderr_truncated ?? false],
  ];
  const said = streams.filter(([, text]) => text !== "");
  if (said.length === 0) return h("p", { class: "hint inset" }, exec.tty ? "A terminal; what it shows is in its tab." : "No output.");
  return h("div", { class: "step-output" }, said.flatMap(([label, text, truncated]) => [
    said.length > 1 && h("p", { class: "hint" }, label),
    (truncated || text.length > shownCharacters) && h("p", { class: "hint" }, "The end of it:"),
    h("pre", { tabindex: "0", "aria-label": label }, plain(text.slice(-shownCharacters))),
  ]));
}

/** Colour codes of a terminal are no text. */
function plain(text: string): string {
  return text.replace(/\u001b(\[[0-9;?]*[ -/]*[@-~]|\][^\u0007\u001b]*(\u0007|\u001b\\)|[@-Z\\-_])/g, "");
}
