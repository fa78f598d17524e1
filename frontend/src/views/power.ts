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
import { item, popover } from "./popover";
import { sparklines } from "./sparkline";

export function statusBar(state: State, context: Context, workspace: Workspace): VNode {
  return h("div", { class: "statusbar", key: "statusbar" },
    h("div", { class: "status-row", key: "what" },
      h("div", { class: "status-state", role: "status", key: "state" }, stateBadge(workspace, since(state, workspace))),
      sparklines(state, context)),
    h("div", { class: "status-row", key: "acts" },
      h("div", { class: "status-notes", key: "notes" },
        workspace.accelerator === "tcg" && emulatedChip(context),
        state.time.holds.map((hold) => holdChip(state, context, hold)),
        state.time.holds.length === 0 && coming(state, workspace)),
      h("div", { class: "status-actions", key: "actions" }, power(state, context, workspace), more(state, context, workspace))));
}

const whyEmulated = (context: Context) => (): void => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "emulated" } });

function emulatedChip(context: Context): VNode {
  return h("button", { type: "button", class: "chip wide-only", key: "emulated", "aria-label": "emulated (no KVM), slower", title: emulatedWhy, onclick: whyEmulated(context) },
    "emulated", h("span", { class: "roomy-only" }, " (no KVM), slower"));
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

const isBusy = (state: State, workspace: Workspace): boolean =>
  workspace.id in state.pending || workspace.state === "deleting" || workspace.state === "deleted";

type Confirm = "confirm-stop" | "confirm-restart" | "confirm-delete";
const confirms = (context: Context, workspace: Workspace, kind: Confirm) => (): void =>
  context.store.dispatch({ type: "dialog.opened", dialog: { kind, id: workspace.id } });

/** What is wanted often stays in sight. */
function power(state: State, context: Context, workspace: Workspace): Child[] {
  const busy = isBusy(state, workspace);
  const running = workspace.state === "running";
  return [
    // At rest the one Start stands in the middle; it is up here where open files stand there, and on a narrow screen.
    canStart(workspace.state) && button(startWord(workspace.state), () => start(context, workspace.id),
      { key: "start", disabled: busy, class: state.tabs.length > 0 ? "" : "narrow" }),
    running && button("Keep awake", () => time.ask(context, { kind: "keep-awake" }), { key: "awake", class: "quiet wide-only" }),
    running && button("Standby", () => void command(context, workspace.id, "standby"), { key: "standby", disabled: busy, title: "To rest with its memory" }),
    (running || workspace.state === "standby" || isChanging(workspace.state)) &&
      button("Stop", confirms(context, workspace, "confirm-stop"), { key: "stop", disabled: busy || workspace.state === "stopping" }),
    workspace.state === "deleted" && button("Bring back", () => void command(context, workspace.id, "undelete"), { key: "undelete", disabled: workspace.id in state.pending }),
  ];
}

/** The rest, and on a narrow screen what has no room above. */
function more(state: State, context: Context, workspace: Workspace): VNode[] {
  const busy = isBusy(state, workspace);
  const running = workspace.state === "running";
  const opens = (kind: "approval-rules") => (): void => context.store.dispatch({ type: "dialog.opened", dialog: { kind } });
  return popover("workspace-more", "more", "More about this workspace", [
    running && item("Keep awake", () => time.ask(context, { kind: "keep-awake" }), { class: "narrow-only" }),
    workspace.accelerator === "tcg" && item("Emulated, slower: why", whyEmulated(context), { class: "narrow-only" }),
    workspace.state !== "restoring" && item("Checkpoint", () => time.ask(context, { kind: "checkpoint" }), { disabled: busy }),
    running && item("Restart", confirms(context, workspace, "confirm-restart"), { disabled: busy }),
    h("hr", { key: "people" }),
    workspace.role && item("Members", () => openMembers(context)),
    workspace.role && workspace.role !== "viewer" && item("Approvals", opens("approval-rules"), { title: "Which acts of tokens wait for a member" }),
    h("hr", { key: "ends" }),
    item("Delete", confirms(context, workspace, "confirm-delete"), { disabled: busy, class: "danger-text" }),
  ]);
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
