/**
 * Time: the tree of checkpoints as a picture, newest first, and what can be done with each. Reads the State; calls
 * commands/time and commands/past. The lines are drawn by time-graph.ts, the dialogs are in time-dialogs.ts and past-dialogs.ts.
 */

import type { Context } from "../commands/context";
import * as past from "../commands/past";
import * as time from "../commands/time";
import { pointName } from "../state/past";
import { undoOf } from "../state/time";
import { treeOf, type TreeRow } from "../state/tree";
import type { Actor, Checkpoint, State, TimeDialog, Workspace } from "../state/types";
import { bytes, duration, exactly, readable, stateWord } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { icon } from "./icons";
import { button, iconButton, when } from "./parts";
import { graph, nowMark, pointMark } from "./time-graph";

interface Seen { state: State; context: Context; workspace: Workspace; lanes: number }

export function timePane(state: State, context: Context, workspace: Workspace): Child {
  const { status, problem, checkpoints, more } = state.time;
  if (status === "failed") return h("p", { class: "problem inset", role: "alert" }, `The checkpoints cannot be read now. ${problem}`);
  if (status === "unknown") return null;
  if (checkpoints.length === 0) return h("p", { class: "hint inset" }, "No checkpoints yet. One keeps all files, and the memory where the host can, to go back to.");
  const { rows: [now, ...rows], lanes } = treeOf(checkpoints, workspace.head_checkpoint);
  const seen = { state, context, workspace, lanes };
  return h("ol", { class: "points", tabindex: "0", "aria-label": "Checkpoints, newest first", onkeydown: walk, mount: () => void past.loadForks(context) },
    nowRow(seen, now!),
    rows.map((row, at) => pointRow(seen, row, checkpoints[at]!)),
    more && h("li", { key: "more", class: "hint inset" }, "There are older ones; the API lists them all."));
}

/** Up and down go from point to point, Home and End to the newest and the oldest, left to the point one descends from. */
function walk(event: KeyboardEvent): void {
  const lines = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("button.point-line")];
  const at = lines.indexOf(document.activeElement as HTMLElement);
  const onList = document.activeElement === event.currentTarget;
  if (at < 0 && !onList) return;
  const to: Record<string, () => HTMLElement | undefined> = {
    ArrowDown: () => lines[at + 1], ArrowUp: () => lines[at - 1], Home: () => lines[0], End: () => lines.at(-1),
    ArrowLeft: () => lines.find((one) => at >= 0 && one.dataset["point"] === lines[at]!.dataset["parent"]),
  };
  const next = to[event.key]?.();
  if (!next) return;
  event.preventDefault();
  next.focus();
}

function nowRow({ state, workspace, lanes }: Seen, row: TreeRow): VNode {
  const from = state.time.checkpoints.find((one) => one.id === workspace.head_checkpoint);
  return h("li", { key: "now", class: "point-now" },
    graph(row, lanes, nowMark),
    h("p", { class: "point-body" }, h("strong", null, "Now"), h("span", null, stateWord(workspace.state).toLowerCase()),
      from && h("span", { class: "unseen" }, `, stands on ${pointName(from)}`)));
}

function pointRow(seen: Seen, row: TreeRow, one: Checkpoint): VNode {
  const { state, context, workspace, lanes } = seen;
  const open = state.past.opened === one.id;
  const here = workspace.head_checkpoint === one.id;
  const forks = state.past.forks[one.id] ?? [];
  return h("li", { key: one.id, class: `point${open ? " open" : ""}`, "data-checkpoint": one.id },
    graph(row, lanes, pointMark(one)),
    h("div", { class: "point-body" },
      h("button", {
        type: "button", class: "point-line", "aria-expanded": open ? "true" : "false", "data-point": one.id, "data-parent": one.parent ?? "",
        onclick: () => past.flip(context, one.id),
      },
      h("span", { class: "point-name" },
        h("span", { class: "point-title", title: readable(one.comment) || pointName(one) }, pointName(one)),
        here && h("span", { class: "chip here", title: "What is on the disk now came from this one" }, "here"),
        forks.length > 0 && h("span", { class: "point-forked", title: "Workspaces began from it" }, icon("fork"), h("span", { class: "unseen" }, "forks: "), forks.length),
        when(one.created_at, state.now)),
      facts(state, one, row)),
      open && details(seen, one)));
}

const kindWords = { manual: "", auto: "automatic", safety: "safety" };

function memoryWord(one: Checkpoint): string {
  if (one.state !== "ready") return "";
  return !one.memory ? "files only" : one.memory_usable ? "with memory" : "memory unfit";
}

function facts(state: State, one: Checkpoint, row: TreeRow): VNode {
  const size = one.disk_bytes === null ? "" : bytes(one.disk_bytes + (one.memory_bytes ?? 0));
  const kind = one.name === "" ? "" : kindWords[one.kind];
  return h("span", { class: "point-facts" },
    one.state === "capturing" && h("span", { class: "tone-busy" }, "being taken"),
    one.state === "failed" && h("span", { class: "tone-bad" }, `not taken: ${readable(one.state_reason ?? "unknown").replaceAll("_", " ")}`),
    [kind, memoryWord(one), called(state, one.actor), size].filter(Boolean).map((word) => h("span", { key: word }, word)),
    row.arriving.length > 1 && h("span", { class: "unseen" }, `, ${row.arriving.length} branches begin here`),
    !row.trunk && h("span", { class: "unseen" }, ", on a branch beside now"));
}

function called(state: State, actor: Actor): string {
  return actor.type === "user" && actor.name === state.page.user ? "you" : readable(actor.name);
}

// -- an opened point --------------------------------------------------------------------------------------------------

function details(seen: Seen, one: Checkpoint): VNode {
  const forks = seen.state.past.forks[one.id] ?? [];
  return h("div", { class: "point-details" },
    one.comment !== "" && h("p", { class: "point-comment" }, readable(one.comment)),
    h("dl", { class: "point-table" }, table(one).map(([term, said]) => h("div", { key: term }, h("dt", null, term), h("dd", null, said)))),
    forks.length > 0 && h("p", { class: "point-forks" }, "Forks: ",
      forks.map((fork, at) => h("span", { key: fork.id }, at > 0 && ", ", h("a", { href: `/workspaces/${fork.id}` }, readable(fork.name))))),
    one.state !== "capturing" && acts(seen, one));
}

function table(one: Checkpoint): [string, Child][] {
  const rows: [string, Child | ""][] = [
    ["Taken", exactly(one.created_at)],
    ["Files", one.disk_bytes === null ? "" : h("span", { title: "What this one holds that those before it do not" }, `${bytes(one.disk_bytes)} of its own`)],
    ["Memory", one.state !== "ready" ? "" : !one.memory ? "none: a restore starts from the files" : one.memory_usable ? `${bytes(one.memory_bytes ?? 0)}: programs go on` : "no longer fits this host"],
    ["Paused", one.pause_ms === null ? "" : `${duration(one.pause_ms)} while it was taken`],
    ["State", one.consistency === "crash" ? "as after a power cut" : ""],
    ["Kept", one.expires_at ? `until ${exactly(one.expires_at)}` : one.kind === "auto" ? "while it is among the newest" : ""],
  ];
  return rows.filter((row): row is [string, Child] => row[1] !== "");
}

function acts({ state, context, workspace }: Seen, one: Checkpoint): VNode {
  const name = `${pointName(one)} of ${exactly(one.created_at)}`;
  const ask = (kind: Extract<TimeDialog, { checkpoint: string }>["kind"]) => (): void => time.ask(context, { kind, checkpoint: one.id });
  const going = workspace.state.startsWith("delet");
  const changing = workspace.state === "restoring" || workspace.id in state.pending || going;
  const ready = one.state === "ready";
  const may = workspace.role !== "viewer";
  return h("div", { class: "point-actions" },
    ready && may && button("Restore", ask("restore"), { class: "small", disabled: changing, "aria-label": `Restore ${name}` }),
    ready && may && button("Fork", ask("fork"), { class: "small", "aria-label": `Fork ${name}` }),
    ready && button("Files", ask("browse"), { class: "small", "aria-label": `Files of ${name}` }),
    ready && button("Compare", () => time.askCompare(context, one.id, "now"), { class: "small", "aria-label": `Compare ${name}` }),
    may && h("span", { class: "point-tools" },
      ready && one.expires_at && button("Keep", () => void time.keep(context, one.id), { class: "small quiet", title: "Until somebody deletes it", "aria-label": `Keep ${name}` }),
      ready && button("Rename", ask("rename-checkpoint"), { class: "small quiet", "aria-label": `Rename ${name}` }),
      button("Delete", ask("delete-checkpoint"), { class: "small quiet", "aria-label": `Delete ${name}` })));
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
