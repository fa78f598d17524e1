/** The workspace page: header, files, editor, terminals, activity. Reads the State; calls commands. */

import { command, rememberToOpenTerminal } from "../commands/workspaces";
import type { Context } from "../commands/context";
import type { Pane, State, Workspace } from "../state/types";
import { presentState } from "../state/steps";
import { canStart, causeOf, isChanging, stateWord } from "../state/words";
import { activityPane } from "./activity";
import { dialogs } from "./dialogs";
import { divider } from "./dividers";
import { h, type Child, type VNode } from "./dom";
import { editorPane } from "./editor-pane";
import { filesPane } from "./files-pane";
import { frame } from "./frame";
import { button, emulatedChip, stateBadge, when } from "./parts";
import { terminalPane } from "./terminal-pane";

export function workspacePage(state: State, context: Context): VNode[] {
  const workspace = state.workspaces[state.page.workspace];
  const crumb = workspace ? [h("span", { class: "crumb-separator", "aria-hidden": "true" }, "/"), h("h1", null, workspace.name)] : [];
  return [
    frame(state, context, crumb, ...(workspace ? panes(state, context, workspace) : [absent(state)])),
    ...dialogs(state, context),
  ];
}

function absent(state: State): Child {
  if (!state.missing) return null;
  return h("main", { class: "absent" },
    h("h1", null, "There is no such workspace"),
    h("p", null, "It was deleted, or it is not one of yours."),
    state.page.admin && h("p", { class: "hint" }, "Admins see that a workspace exists, not what is in it."),
    h("a", { class: "button primary", href: "/" }, "All workspaces"));
}

function panes(state: State, context: Context, workspace: Workspace): VNode[] {
  return [
    statusBar(state, context, workspace),
    paneSwitch(state, context),
    h("main", {
      class: `bench show-${state.pane}`, key: "bench",
      style: {
        "--files-width": `${state.layout.files}px`, "--activity-width": `${state.layout.activity}px`,
        "--terminal-height": `${state.layout.terminal}px`,
      },
    },
    filesPane(state, context, workspace),
    divider(context, "files", "Width of the files", state.layout.files),
    h("section", { class: "editor-area", "aria-label": "Editor" },
      workspace.state === "running" || state.tabs.length > 0 ? editorPane(state, context) : atRest(state, context, workspace)),
    divider(context, "terminal", "Height of the terminals", state.layout.terminal),
    terminalPane(state, context, workspace),
    divider(context, "activity", "Width of the activity", state.layout.activity),
    activityPane(state, context)),
  ];
}

function statusBar(state: State, context: Context, workspace: Workspace): VNode {
  return h("div", { class: "statusbar", key: "statusbar" },
    h("div", { class: "status-words", role: "status" }, stateBadge(workspace, since(state, workspace)), emulatedChip(workspace)),
    h("div", { class: "status-actions" }, power(state, context, workspace)));
}

function since(state: State, workspace: Workspace): Child {
  const { at, by } = presentState(state.events, workspace.state);
  return at ? h("span", null, by && by !== state.page.user && `by ${by}, `, when(at, state.now)) : null;
}

function power(state: State, context: Context, workspace: Workspace): Child[] {
  const busy = workspace.id in state.pending || workspace.state === "deleting" || workspace.state === "deleted";
  const confirm = (kind: "confirm-stop" | "confirm-restart" | "confirm-delete"): void =>
    context.store.dispatch({ type: "dialog.opened", dialog: { kind, id: workspace.id } });
  const running = workspace.state === "running";
  return [
    // At rest the one Start stands in the middle; it is up here when open files stand there.
    canStart(workspace.state) && state.tabs.length > 0 && button("Start", () => start(context, workspace.id), { key: "start", disabled: busy }),
    running && button("Restart", () => confirm("confirm-restart"), { key: "restart", disabled: busy }),
    (running || isChanging(workspace.state)) &&
      button("Stop", () => confirm("confirm-stop"), { key: "stop", disabled: busy || workspace.state === "stopping" }),
    button("Delete", () => confirm("confirm-delete"), { key: "delete", disabled: busy, class: "quiet" }),
  ];
}

function start(context: Context, id: string): void {
  rememberToOpenTerminal(id);
  void command(context, id, "start");
}

/** Asleep, starting or failed is no error page: what is known, and the one thing to do. */
function atRest(state: State, context: Context, workspace: Workspace): VNode {
  const cause = causeOf(workspace);
  const { detail } = presentState(state.events, workspace.state);
  return h("div", { class: "at-rest" },
    h("p", { class: "lead" }, `${stateWord(workspace.state)}${cause ? `: ${cause}` : ""}`),
    workspace.state === "failed" && detail && h("p", { class: "breakable" }, detail),
    h("p", null, restWords(workspace)),
    canStart(workspace.state) &&
      button("Start", () => start(context, workspace.id), { class: "primary", disabled: workspace.id in state.pending, "aria-label": "Start the workspace" }));
}

function restWords(workspace: Workspace): string {
  switch (workspace.state) {
    case "creating": return "The machine is being made. Files and terminals appear when it runs.";
    case "waking": return "The machine is starting. Files and terminals appear when it runs.";
    case "stopping": return "The machine is being shut down cleanly. Files are safe.";
    case "stopped": case "standby": return "Files are safe. Start it whenever you need it.";
    case "failed": return "Files on its disk are kept. Starting it again tries anew.";
    case "deleting": case "deleted": return "It can be brought back over the API until the trash is emptied.";
    default: return "";
  }
}

const paneWords: [Pane, string][] = [["activity", "Activity"], ["terminal", "Terminal"], ["files", "Files"], ["editor", "Editor"]];

/** On a narrow screen one pane is seen at a time. */
function paneSwitch(state: State, context: Context): VNode {
  return h("nav", { class: "pane-switch", "aria-label": "Parts of the workspace", key: "switch" },
    paneWords.map(([pane, label]) => h("button", {
      type: "button", key: pane, "aria-pressed": state.pane === pane ? "true" : "false",
      onclick: () => context.store.dispatch({ type: "pane.shown", pane }),
    }, label)));
}
