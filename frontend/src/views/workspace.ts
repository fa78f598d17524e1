/** The workspace page: header, files, editor, terminals, activity. Reads the State; calls commands. */

import type { Context } from "../commands/context";
import type { Pane, State, Workspace } from "../state/types";
import { presentState } from "../state/steps";
import { canStart, causeOf, startWord, stateWord } from "../state/words";
import { approvalBar } from "./approvals";
import { dialogs } from "./dialogs";
import { divider } from "./dividers";
import { h, type Child, type VNode } from "./dom";
import { editorPane } from "./editor-pane";
import { filesPane } from "./files-pane";
import { frame } from "./frame";
import { glassButton } from "./members";
import { button } from "./parts";
import { previewPane } from "./ports";
import { start, statusBar } from "./power";
import { sidePane } from "./side";
import { terminalPane } from "./terminal-pane";
import { undoBar } from "./time";

export function workspacePage(state: State, context: Context): VNode[] {
  const workspace = state.workspaces[state.page.workspace];
  const crumb = workspace ? [h("span", { class: "crumb-separator", "aria-hidden": "true" }, "/"), h("h1", null, workspace.name)] : [];
  return [
    frame(state, context, crumb, ...(workspace ? panes(state, context, workspace) : [absent(state, context)])),
    ...dialogs(state, context),
  ];
}

function absent(state: State, context: Context): Child {
  if (!state.missing) return null;
  return h("main", { class: "absent" },
    h("h1", null, "There is no such workspace"),
    h("p", null, "It was deleted, or it is not one of yours."),
    state.page.admin && h("p", { class: "hint" }, "Admins see that a workspace exists, not what is in it."),
    h("div", { class: "banner-actions" },
      h("a", { class: "button primary", href: "/" }, "All workspaces"), glassButton(state, context)));
}

function panes(state: State, context: Context, workspace: Workspace): Child[] {
  return [
    statusBar(state, context, workspace),
    approvalBar(state, context, workspace),
    undoBar(state, context, workspace),
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
    h("section", { class: "editor-area", "aria-label": state.ports.preview ? "Preview" : "Editor" },
      previewPane(state, context, workspace),
      workspace.state === "running" || state.tabs.length > 0 ? editorPane(state, context) : atRest(state, context, workspace)),
    divider(context, "terminal", "Height of the terminals", state.layout.terminal),
    terminalPane(state, context, workspace),
    divider(context, "activity", "Width of the activity", state.layout.activity),
    sidePane(state, context, workspace)),
  ];
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
      button(startWord(workspace.state), () => start(context, workspace.id),
        { class: "primary", disabled: workspace.id in state.pending, "aria-label": `${startWord(workspace.state)} the workspace` }));
}

function restWords(workspace: Workspace): string {
  switch (workspace.state) {
    case "creating": return "The machine is being made. Files and terminals appear when it runs.";
    case "waking": return "The machine is on its way. Files and terminals appear when it runs.";
    case "parking": return "Its memory is being kept. Files are safe, and what runs goes on when it wakes.";
    case "restoring": return "Files and memory become what they were then. What is there now is kept first.";
    case "stopping": return "The machine is being shut down cleanly. Files are safe.";
    case "standby": return "Files and memory are safe. Wake it whenever you need it: what ran goes on where it was.";
    case "stopped": return "Files are safe. Start it whenever you need it.";
    case "failed": return "Files on its disk are kept. Starting it again tries anew.";
    case "deleting": case "deleted": return "It is in the trash. Until that is emptied it can be brought back as it was.";
    default: return "";
  }
}

const paneWords: [Pane, string][] = [["activity", "Activity"], ["time", "Time"], ["ports", "Ports"], ["network", "Network"], ["terminal", "Terminal"], ["files", "Files"], ["editor", "Editor"]];

/** On a narrow screen one pane is seen at a time. */
function paneSwitch(state: State, context: Context): VNode {
  return h("nav", { class: "pane-switch", "aria-label": "Parts of the workspace", key: "switch" },
    paneWords.map(([pane, label]) => h("button", {
      type: "button", key: pane, "aria-pressed": state.pane === pane ? "true" : "false",
      onclick: () => context.store.dispatch({ type: "pane.shown", pane }),
    }, label)));
}
