/** The commands to the workspace itself. Part of table.ts; what cannot be taken back asks first, as its button does. */

import { canStart, isChanging, startWord } from "../state/words";
import type { Dialog, State, Workspace } from "../state/types";
import type { Context } from "./context";
import * as people from "./people";
import type { Command } from "./table";
import { onWorkspace } from "./table-page";
import * as time from "./time";
import * as workspaces from "./workspaces";

const when = (test: (workspace: Workspace) => boolean) => (state: State): boolean =>
  onWorkspace(state) && !(state.page.workspace in state.pending) && test(state.workspaces[state.page.workspace]!);
const running = (one: Workspace): boolean => one.state === "running";
const id = (context: Context): string => context.store.get().page.workspace;
const opens = (dialog: Dialog) => (context: Context): void => context.store.dispatch({ type: "dialog.opened", dialog });
const confirms = (kind: "confirm-stop" | "confirm-restart" | "confirm-delete") => (context: Context): void => opens({ kind, id: id(context) })(context);

function start(context: Context): void {
  workspaces.rememberToOpenTerminal(id(context));
  void workspaces.command(context, id(context), "start");
}

function members(context: Context): void {
  opens({ kind: "members" })(context);
  void people.loadMembers(context);
}

export const workspaceCommands: Command[] = [
  { id: "start", title: `${startWord("standby")} or start the workspace`, group: "Workspace", applies: when((one) => canStart(one.state)), run: start },
  { id: "checkpoint", title: "Make a checkpoint", group: "Workspace", applies: when((one) => !one.state.startsWith("delet") && one.state !== "restoring"), run: (context) => time.ask(context, { kind: "checkpoint" }) },
  { id: "keep-awake", title: "Keep the workspace awake", group: "Workspace", applies: when(running), run: (context) => time.ask(context, { kind: "keep-awake" }) },
  { id: "standby", title: "Send the workspace to standby", group: "Workspace", applies: when(running), run: (context) => void workspaces.command(context, id(context), "standby") },
  { id: "restart", title: "Restart the workspace", group: "Workspace", applies: when(running), run: confirms("confirm-restart") },
  { id: "stop", title: "Stop the workspace", group: "Workspace", applies: when((one) => running(one) || one.state === "standby" || isChanging(one.state)), run: confirms("confirm-stop") },
  { id: "members", title: "Members", group: "Workspace", applies: when((one) => Boolean(one.role)), run: members },
  { id: "approval-rules", title: "Which acts of tokens wait for approval", group: "Workspace", applies: when((one) => Boolean(one.role) && one.role !== "viewer"), run: opens({ kind: "approval-rules" }) },
  { id: "delete", title: "Delete the workspace", group: "Workspace", applies: when((one) => !one.state.startsWith("delet")), run: confirms("confirm-delete") },
];
