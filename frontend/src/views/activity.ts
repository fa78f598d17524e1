/**
 * Activity: one row a step, newest first, actor and time, outcome by icon and word. Reads the State; calls
 * commands/activity. What an opened step shows is in step-details.ts.
 */

import * as activity from "../commands/activity";
import type { Context } from "../commands/context";
import * as time from "../commands/time";
import { momentsBefore, type Moment } from "../state/moments";
import { actorKey, actorsOf, familyWords, filtered, rowsOf, type Row, type Run } from "../state/runs";
import { stepsOf, type Step } from "../state/steps";
import type { Actor, BerthEvent, Checkpoint, Family, State, Workspace } from "../state/types";
import { clock, readable } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { icon } from "./icons";
import { button, iconButton, when } from "./parts";
import { stepDetail } from "./step-details";

export function activityPane(state: State, context: Context, workspace: Workspace): Child[] {
  const steps = stepsOfOnce(state.events);
  if (steps.length === 0) return [h("p", { class: "hint inset", key: "none" }, state.connection === "live" ? "Nothing has happened yet." : "")];
  const seen = filtered(steps, state.activity);
  const rows = rowsOf(seen, state.activity.runs);
  const goesBack = olderButton(state, context, rows.length);
  return [
    filters(state, context, steps),
    h("ol", { class: "steps", key: "steps", tabindex: "0", "aria-label": "Steps, newest first", onkeydown: walk },
      rows.slice(0, state.activity.shown).map((row) => drawn({ state, context, workspace, moments: momentsOnce(state.events, state.time.checkpoints) }, row)),
      (seen.length === 0 || goesBack) && h("li", { key: "older", class: "older" }, seen.length === 0 && h("p", { class: "hint" }, "No such step here."), goesBack)),
  ];
}

interface Seen { state: State; context: Context; workspace: Workspace; moments: Map<string, Moment> }

/** Drawn often, changed seldom: an answer is kept for the very same events. */
const stepsOfOnce = remembered((events: BerthEvent[]) => stepsOf(events));
const momentsOnce = remembered((events: BerthEvent[], checkpoints: Checkpoint[]) => momentsBefore(events, checkpoints));

function remembered<A extends unknown[], R>(work: (...given: A) => R): (...given: A) => R {
  let last: { given: A; answer: R } | null = null;
  return (...given) => {
    if (!last || last.given.some((one, at) => one !== given[at])) last = { given, answer: work(...given) };
    return last.answer;
  };
}

// -- filters and the way back ---------------------------------------------------------------------------------------

function filters(state: State, context: Context, steps: Step[]): VNode {
  const change = (what: Partial<State["activity"]>): void => context.store.dispatch({ type: "activity.changed", change: { shown: 100, ...what } });
  return h("div", { class: "step-filters", key: "filters" },
    select("Who", state.activity.actor, [["", "Everybody"], ...actorsOf(steps).map((actor): [string, string] => [actorKey(actor), called(state, actor)])],
      (actor) => change({ actor })),
    select("What", state.activity.family, [["", "Everything"], ...familyWords], (family) => change({ family: family as Family | "" })));
}

function select(label: string, value: string, options: [string, string][], chosen: (value: string) => void): VNode {
  return h("select", { "aria-label": label, value, onchange: (event: Event) => chosen((event.currentTarget as HTMLSelectElement).value) },
    options.map(([key, word]) => h("option", { key, value: key }, word)));
}

function olderButton(state: State, context: Context, rows: number): Child {
  const { shown, older } = state.activity;
  if (rows > shown) return button("Show older steps", () => context.store.dispatch({ type: "activity.changed", change: { shown: shown + 100 } }), { class: "small quiet" });
  if (older === "none") return null;
  return button("Show older steps", () => void activity.older(context), { class: "small quiet", disabled: older === "reading" });
}

/** Up and down go from step to step. */
function walk(event: KeyboardEvent): void {
  if (event.key !== "ArrowUp" && event.key !== "ArrowDown") return;
  const lines = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("button.step-line")];
  const at = lines.indexOf(document.activeElement as HTMLElement);
  const next = at < 0 ? (document.activeElement === event.currentTarget ? lines[0] : undefined) : lines[at + (event.key === "ArrowDown" ? 1 : -1)];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

// -- rows -----------------------------------------------------------------------------------------------------------

function drawn(seen: Seen, row: Row): VNode {
  return "run" in row ? runRow(seen, row.run) : stepRow(seen, row.step);
}

function runRow(seen: Seen, run: Run): VNode {
  const { state, context } = seen;
  const flip = (): void => context.store.dispatch({ type: "activity.changed", change: { runs: { ...state.activity.runs, [run.key]: !run.open } } });
  const [first, last] = [clock(run.steps.at(-1)!.at), clock(run.steps[0]!.endAt)];
  return h("li", { key: run.key, class: "run" },
    h("button", { type: "button", class: "step-line run-line", "aria-expanded": run.open ? "true" : "false", onclick: flip },
      h("span", { class: "run-head" },
        icon(run.open ? "open" : "shut"), h("span", { class: "run-who" }, called(state, run.actor)),
        h("span", { class: "run-when" }, first === last ? first : `${first} – ${last}`)),
      h("span", { class: "run-counts" },
        h("span", null, `${run.steps.length} steps`),
        run.running > 0 && h("span", { class: "outcome tone-busy" }, icon("busy"), `${run.running} running`),
        run.failed > 0 && h("span", { class: "outcome tone-bad" }, icon("bad"), `${run.failed} failed`))),
    run.open && h("ol", { class: "run-steps" }, run.steps.map((step) => stepRow(seen, step, actorKey(step.actor) === actorKey(run.actor)))));
}

/** Whose run it is stands above its steps and not in each. */
function stepRow(seen: Seen, step: Step, ofRun = false): VNode {
  const { state, context } = seen;
  const detail = state.expanded[step.key];
  const opens = step.execId !== "" || step.family === "file" && step.path !== "";
  const moment = seen.workspace.role === "viewer" ? undefined : seen.moments.get(step.key);
  return h("li", { key: step.key, class: "step" },
    h("div", { class: "step-head" },
      opens
        ? h("button", { type: "button", class: "step-line", "aria-expanded": detail ? "true" : "false", onclick: () => void activity.flip(context, step) }, line(state, step, ofRun))
        : h("div", { class: "step-line" }, line(state, step, ofRun)),
      moment && !detail && iconButton("undo", restoreWords(moment), () => restore(context, moment), { class: "step-undo", disabled: isBusy(seen) })),
    detail && stepDetail(context, step, detail),
    detail && moment && h("div", { class: "step-acts" },
      h("button", { type: "button", class: "button small", disabled: isBusy(seen), onclick: () => restore(context, moment) }, icon("undo"), restoreWords(moment))));
}

function isBusy({ state, workspace }: Seen): boolean {
  return workspace.state === "restoring" || workspace.id in state.pending || workspace.state.startsWith("delet");
}

/** Going back to a checkpoint undoes every step since; where there are others before this one, that is said. */
function restoreWords({ between }: Moment): string {
  if (between === 0) return "Restore to just before this";
  return `Restore to before this and ${between === 1 ? "the step" : `${between} steps`} ahead of it`;
}

function restore(context: Context, { checkpoint }: Moment): void {
  time.ask(context, { kind: "restore", checkpoint: checkpoint.id });
}

function line(state: State, step: Step, ofRun: boolean): Child[] {
  return [
    h("span", { class: "step-what" },
      step.text && h("span", null, step.text),
      step.code && h("code", { title: step.code }, step.code)),
    h("span", { class: "step-foot" },
      step.outcome && h("span", { class: `outcome tone-${step.outcome.tone}` }, icon(step.outcome.tone), step.outcome.text),
      step.detail && h("span", { class: "step-detail", title: step.detail }, step.detail),
      h("span", { class: ofRun ? "unseen" : "step-actor" }, called(state, step.actor)),
      when(step.at, state.now)),
  ];
}

function called(state: State, actor: Actor): string {
  return actor.type === "user" && actor.name === state.page.user ? "you" : readable(actor.name);
}
