/** The status bar of a workspace: its state, what comes next, what it can be told to do. Called by workspace.ts. */

import { command, rememberToOpenTerminal } from "../commands/workspaces";
import type { Context } from "../commands/context";
import * as holds from "../commands/holds";
import * as time from "../commands/time";
import { awakeList, comingWords, holdWords } from "../state/coming";
import { presentState } from "../state/steps";
import type { Hold, State, Workspace } from "../state/types";
import { canStart, exactly, isChanging, startWord } from "../state/words";
import type { Shown } from "./dialogs";
import { h, type Child, type VNode } from "./dom";
import { openMembers } from "./members";
import { button, emulatedWhy, iconButton, stateBadge, when } from "./parts";
import { sparklines } from "./sparkline";

export function statusBar(state: State, context: Context, workspace: Workspace): VNode {
  return h("div", { class: "statusbar", key: "statusbar" },
    h("div", { class: "status-words" },
      h("div", { role: "status" }, stateBadge(workspace, since(state, workspace))),
      workspace.accelerator === "tcg" && h("button", { type: "button", class: "chip", key: "emulated", onclick: () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "emulated" } }) }, "emulated (no KVM), slower"),
      state.time.holds.map((hold) => holdChip(state, context, hold)),
      state.time.holds.length === 0 && coming(state, workspace)),
    sparklines(state, context),
    h("div", { class: "status-actions" }, power(state, context, workspace)));
}

function since(state: State, workspace: Workspace): Child {
  const { at, by } = presentState(state.events, workspace.state);
  return at ? h("span", null, by && by !== state.page.user && `by ${by}, `, when(at, state.now)) : null;
}

function coming(state: State, workspace: Workspace): Child {
  const words = comingWords(workspace, state.now);
  const at = workspace.next_transition?.at;
  const title = [at ? exactly(at) : "", awakeList(workspace)].filter(Boolean).join("\n");
  return words && h("span", { class: "coming", title }, words);
}

/** What is held from inside ends from inside. */
function holdChip(state: State, context: Context, hold: Hold): VNode {
  return h("span", { class: "chip hold", key: `hold-${hold.id}`, title: exactly(hold.expires_at) },
    h("span", null, holdWords(hold, state)),
    hold.from === "api" && iconButton("close", "No longer keep it awake", () => void holds.letGo(context, hold.id)));
}

function power(state: State, context: Context, workspace: Workspace): Child[] {
  const busy = workspace.id in state.pending || workspace.state === "deleting" || workspace.state === "deleted";
  const confirm = (kind: "confirm-stop" | "confirm-restart" | "confirm-delete"): void =>
    context.store.dispatch({ type: "dialog.opened", dialog: { kind, id: workspace.id } });
  const running = workspace.state === "running";
  return [
    // At rest the one Start stands in the middle; it is up here where open files stand there, and on a narrow screen.
    canStart(workspace.state) && button(startWord(workspace.state), () => start(context, workspace.id),
      { key: "start", disabled: busy, class: state.tabs.length > 0 ? "" : "narrow" }),
    workspace.role && button("Members", () => openMembers(context), { key: "members", class: "quiet" }),
    workspace.role && workspace.role !== "viewer" && button("Approvals", () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "approval-rules" } }), { key: "approval-rules", class: "quiet", title: "Which acts of tokens wait for a member" }),
    running && button("Keep awake", () => time.ask(context, { kind: "keep-awake" }), { key: "awake", class: "quiet" }),
    running && button("Standby", () => void command(context, workspace.id, "standby"), { key: "standby", disabled: busy, title: "To rest with its memory" }),
    running && button("Restart", () => confirm("confirm-restart"), { key: "restart", disabled: busy }),
    (running || workspace.state === "standby" || isChanging(workspace.state)) &&
      button("Stop", () => confirm("confirm-stop"), { key: "stop", disabled: busy || workspace.state === "stopping" }),
    workspace.state === "deleted" && button("Bring back", () => void command(context, workspace.id, "undelete"), { key: "undelete", disabled: workspace.id in state.pending }),
    button("Delete", () => confirm("confirm-delete"), { key: "delete", disabled: busy, class: "quiet" }),
  ];
}

export function emulatedDialog(context: Context): Shown {
  return {
    title: "Why it is slower", verb: "Understood", dismiss: "",
    body: [
      h("p", null, emulatedWhy),
      h("p", null, "What computes takes about ten times as long; what waits for disk or network hardly longer. Files, checkpoints and standby are the same."),
      h("p", { class: "hint" }, "On the host, ", h("code", null, "./berth doctor"), " says why KVM cannot be used and what to do about it: mostly that virtualization is off in the firmware, or that the host is itself a machine without nested virtualization."),
    ],
    act: () => context.store.dispatch({ type: "dialog.closed" }),
  };
}

export function start(context: Context, id: string): void {
  rememberToOpenTerminal(id);
  void command(context, id, "start");
}
