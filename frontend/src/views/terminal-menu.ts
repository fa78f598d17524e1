/** What may be done with a terminal, and the list of those that are not open here. Reads the State; calls commands/terminals. */

import type { Context } from "../commands/context";
import * as terminals from "../commands/terminals";
import { isMine, shortTitle } from "../state/terminals";
import type { Exec, State, TerminalTab, Workspace } from "../state/types";
import { ago, outcomeWords, readable } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { item, popover } from "./popover";
import { titleOf } from "./terminal-lease";

export function terminalMenu(state: State, context: Context, workspace: Workspace, tab: TerminalTab): VNode[] {
  const open = tab.status !== "ended";
  const may = open && workspace.role !== "viewer";
  const play = (source: "recording" | "kept"): void =>
    context.store.dispatch({ type: "dialog.opened", dialog: { kind: "play", id: tab.id, title: titleOf(tab), source } });
  return popover(`menu-${tab.id}`, "more", `More about terminal ${titleOf(tab)}`, [
    item("Name…", () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "rename-terminal", id: tab.id } })),
    item("Find (Ctrl+Shift+F)", () => context.store.dispatch({ type: "terminal.sought", id: tab.id })),
    may && item("Split to the right", () => void terminals.openShell(context, { beside: tab.id, way: "row" }), { disabled: state.opening }),
    may && item("Split below", () => void terminals.openShell(context, { beside: tab.id, way: "column" }), { disabled: state.opening }),
    h("hr", { key: "records" }),
    may && (tab.recordedBy
      ? item("Stop recording", () => void terminals.record(context, tab.id, false))
      : item("Record", () => void terminals.record(context, tab.id, true))),
    tab.recorded && item("Play the recording", () => play("recording")),
    item("Replay what is kept", () => play("kept")),
    h("hr", { key: "ends" }),
    may && tab.mine && item("Give the keyboard back", () => terminals.say(tab.id, { release: true })),
    open && item("Leave it running", () => terminals.detach(context, tab.id)),
    may && item("End it", () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "close-terminal", id: tab.id } }), { class: "danger-text" }),
  ]);
}

export function otherTerminals(state: State, context: Context, workspace: Workspace): VNode[] {
  const running = state.otherTerminals.filter((exec) => exec.state !== "ended");
  const ended = state.otherTerminals.filter((exec) => exec.state === "ended");
  const label = running.length > 0 ? `Other terminals: ${running.length} running` : "Other terminals";
  return popover("other-terminals", "list", label, [
    h("h3", { key: "running" }, "Running"),
    ...(running.length > 0 ? running.map((exec) => joinable(state, context, exec)) : [h("p", { key: "none", class: "muted" }, "None but those in the tabs.")]),
    ended.length > 0 && h("h3", { key: "ended" }, "Ended"),
    ...ended.map((exec) => replayable(state, context, exec)),
    h("hr", { key: "new" }),
    item("New terminal, no profile", () => void terminals.openShell(context, undefined, true),
      { disabled: workspace.state !== "running" || state.opening || workspace.role === "viewer" }),
  ], running.length, { onclick: () => void terminals.listOthers(context) });
}

function who(state: State, exec: Exec): string {
  return isMine(exec, state.page.user) ? "you" : exec.actor?.name ?? "";
}

function wordsOf(exec: Exec): string {
  return shortTitle(typeof exec.command === "string" ? exec.command : exec.command.join(" "));
}

function row(state: State, exec: Exec, note: Child, verb: string, act: () => void): VNode {
  const label = `${verb} ${wordsOf(exec)} of ${who(state, exec)}`;
  return h("div", { class: "other-terminal", key: exec.id },
    h("span", { class: "other-name" }, h("code", null, readable(wordsOf(exec))), h("span", { class: "muted" }, ` ${who(state, exec)}`, note)),
    item(verb, act, { class: "small", "aria-label": label, key: `join-${exec.id}` }));
}

function joinable(state: State, context: Context, exec: Exec): VNode {
  const note = exec.started_at ? `, ${ago(exec.started_at, state.now)}` : null;
  return row(state, exec, note, "Join", () => terminals.join(context, exec));
}

function replayable(state: State, context: Context, exec: Exec): VNode {
  const note = exec.outcome ? `, ${outcomeWords(exec.outcome).text}` : null;
  const source = exec.recording ? "recording" : "kept";
  return row(state, exec, note, "Replay", () =>
    context.store.dispatch({ type: "dialog.opened", dialog: { kind: "play", id: exec.id, title: wordsOf(exec), source } }));
}
