/** What a person may do with workspaces. Called by views; calls api/, tells the store. */

import { Problem } from "../api/problem";
import * as api from "../api/workspaces";
import * as listing from "./listing";
import { raise, raiseProblem, throughDialog, type Context } from "./context";

export async function loadAll(context: Context): Promise<void> {
  try {
    context.store.dispatch({ type: "workspaces.loaded", workspaces: await api.listWorkspaces() });
  } catch (cause) {
    raiseProblem(context, cause);
  }
}

/** Reads one again; a 404 means it is gone (or was never ours), which is a fact like any other. */
export async function loadOne(context: Context, id: string): Promise<void> {
  try {
    context.store.dispatch({ type: "workspace.changed", workspace: await api.readWorkspace(id) });
  } catch (cause) {
    if (cause instanceof Problem && cause.status === 404) context.store.dispatch({ type: "workspace.gone", id });
    else raiseProblem(context, cause);
  }
}

export async function create(context: Context, wanted: api.NewWorkspace): Promise<void> {
  await throughDialog(context, async () => {
    const workspace = await api.createWorkspace(wanted);
    context.store.dispatch({ type: "workspace.changed", workspace });
    rememberToOpenTerminal(workspace.id);
    await listing.load(context);
  });
}

/** Why a workspace cannot rest with its memory, and what can be done instead. */
const noStandby: Record<string, string> = {
  no_memory_images: "Its host keeps no memory, so it cannot go to standby. Stop it instead: files are kept, programs end.",
  failed: "It has failed, so there is no memory to keep. Start it, or leave it: files are kept.",
  stopped: "It is stopped: there is no memory to keep.",
};

export async function command(context: Context, id: string, what: api.PowerCommand): Promise<void> {
  context.store.dispatch({ type: "command.sent", id, command: what });
  try {
    context.store.dispatch({ type: "workspace.changed", workspace: await api.commandWorkspace(id, what) });
  } catch (cause) {
    const words = what === "standby" && cause instanceof Problem ? noStandby[cause.reason] : undefined;
    if (words) raise(context, "error", words);
    else raiseProblem(context, cause);
  } finally {
    context.store.dispatch({ type: "command.answered", id });
  }
}

export async function remove(context: Context, id: string): Promise<void> {
  await throughDialog(context, async () => {
    await api.deleteWorkspace(id);
    if (context.store.get().page.page === "workspace") location.assign("/");
    else await loadOne(context, id);
  });
}

/** A workspace one has just made or started is opened to be typed in: its page brings a terminal by itself, once. */
export function rememberToOpenTerminal(id: string): void {
  sessionStorage.setItem(`berth.terminal.${id}`, "wanted");
}

export function wantsTerminal(id: string): boolean {
  const wanted = sessionStorage.getItem(`berth.terminal.${id}`) !== null;
  sessionStorage.removeItem(`berth.terminal.${id}`);
  return wanted;
}
