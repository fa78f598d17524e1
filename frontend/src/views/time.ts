/** Time: the checkpoints of a workspace, newest first, and what can be done with each. Reads the State; calls commands/time. */

import type { Context } from "../commands/context";
import * as time from "../commands/time";
import { undoOf } from "../state/time";
import type { Checkpoint, State, Workspace } from "../state/types";
import { bytes, duration, exactly, readable } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { button, iconButton, when } from "./parts";

export function timePane(state: State, context: Context, workspace: Workspace): Child {
  const { status, problem, checkpoints, more } = state.time;
  if (status === "failed") return h("p", { class: "problem inset", role: "alert" }, `The checkpoints cannot be read now. ${problem}`);
  if (status === "unknown") return null;
  if (checkpoints.length === 0) return h("p", { class: "hint inset" }, "No checkpoints yet. One keeps all files, and the memory where the host can, to go back to.");
  return h("ol", { class: "points", tabindex: "0", "aria-label": "Checkpoints, newest first" },
    checkpoints.map((one) => row(state, context, workspace, one)),
    more && h("li", { key: "more", class: "hint inset" }, "There are older ones; the API lists them all."));
}

/** What a checkpoint is called on the page: its name, else its kind. */
export function pointName(one: Checkpoint | undefined): string {
  if (!one) return "a checkpoint that is gone";
  return readable(one.name) || { manual: "Checkpoint", auto: "Automatic", safety: "Safety" }[one.kind];
}

function row(state: State, context: Context, workspace: Workspace, one: Checkpoint): VNode {
  return h("li", { key: one.id, class: "point", "data-checkpoint": one.id },
    mark(one),
    h("div", { class: "point-body" },
      h("p", { class: "point-name" },
        h("span", { class: "point-title", title: readable(one.comment) || pointName(one) }, pointName(one)),
        one.kind !== "manual" && one.name !== "" && h("span", { class: "chip" }, one.kind === "auto" ? "automatic" : "safety"),
        workspace.head_checkpoint === one.id && h("span", { class: "chip here", title: "What is on the disk now came from this one" }, "here")),
      one.comment !== "" && h("p", { class: "point-comment" }, readable(one.comment)),
      facts(state, one),
      one.state !== "capturing" && actions(state, context, workspace, one)));
}

const marks = {
  filled: "with memory", hollow: "files only", unfit: "files only: its memory no longer fits this host",
};

function mark(one: Checkpoint): VNode {
  if (one.state === "failed") return h("span", { class: "mark-memory unfit", "aria-hidden": "true" });
  const kind = !one.memory ? "hollow" : one.state === "ready" && !one.memory_usable ? "unfit" : "filled";
  return h("span", { class: `mark-memory ${kind}`, title: marks[kind] }, h("span", { class: "unseen" }, marks[kind]));
}

function facts(state: State, one: Checkpoint): VNode {
  const size = one.disk_bytes === null ? null : one.disk_bytes + (one.memory_bytes ?? 0);
  const actor = one.actor.type === "user" && one.actor.name === state.page.user ? "you" : readable(one.actor.name);
  return h("p", { class: "point-facts" },
    one.state === "capturing" && h("span", { class: "tone-busy" }, "being taken"),
    one.state === "failed" && h("span", { class: "tone-bad" }, `not taken: ${readable(one.state_reason ?? "unknown").replaceAll("_", " ")}`),
    h("span", null, actor),
    when(one.created_at, state.now),
    size !== null && h("span", { title: sizes(one) }, bytes(size)),
    one.pause_ms !== null && h("span", { title: "How long everything stood still while it was taken" }, `paused ${duration(one.pause_ms)}`),
    one.expires_at && h("span", { title: exactly(one.expires_at) }, "expires"));
}

function sizes(one: Checkpoint): string {
  const memory = one.memory_bytes === null ? "" : `, memory ${bytes(one.memory_bytes)}`;
  return `Disk that only this one holds ${bytes(one.disk_bytes ?? 0)}${memory}`;
}

function actions(state: State, context: Context, workspace: Workspace, one: Checkpoint): VNode {
  const name = `${pointName(one)} of ${exactly(one.created_at)}`;
  const ask = (kind: "restore" | "fork" | "rename-checkpoint" | "delete-checkpoint"): void => time.ask(context, { kind, checkpoint: one.id });
  const changing = workspace.state === "restoring" || workspace.id in state.pending || workspace.state.startsWith("delet");
  return h("div", { class: "point-actions" },
    one.state === "ready" && button("Restore", () => ask("restore"), { class: "small", disabled: changing, "aria-label": `Restore ${name}` }),
    one.state === "ready" && button("Fork", () => ask("fork"), { class: "small quiet", "aria-label": `Fork ${name}` }),
    h("span", { class: "point-tools" },
      one.state === "ready" && iconButton("pencil", `Rename ${name}`, () => ask("rename-checkpoint")),
      iconButton("trash", `Delete ${name}`, () => ask("delete-checkpoint"))));
}

/** After a restore: what happened, and the way back from it. */
export function undoBar(state: State, context: Context, workspace: Workspace): Child {
  const undo = undoOf(state);
  if (!undo || workspace.state === "restoring") return null;
  const { event, safety, target } = undo;
  const who = event.actor.type === "user" && event.actor.name === state.page.user ? "You" : readable(event.actor.name);
  const to = target?.kind === "safety" ? "to how it was before a restore" : `to “${pointName(target)}”`;
  return h("div", { class: "undo-bar", role: "status", key: "undo" },
    h("p", null, `${who} went back ${to}`, ", ", when(event.at, state.now), ". What was there before is kept."),
    h("div", { class: "banner-actions" },
      button("Undo", () => void time.undo(context, safety.id), { class: "small" }),
      iconButton("close", "Put this away", () => context.store.dispatch({ type: "undo.dismissed", seq: event.seq }))));
}
