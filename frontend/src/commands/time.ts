/** What a person may do with checkpoints. Called by views and pages.ts; calls api/checkpoints, tells the store. */

import * as api from "../api/checkpoints";
import { said } from "../api/client";
import type { TimeDialog } from "../state/types";
import { raise, raiseProblem, throughDialog, type Context } from "./context";

const workspaceOf = (context: Context): string => context.store.get().page.workspace;

export async function load(context: Context): Promise<void> {
  try {
    context.store.dispatch({ type: "checkpoints.listed", ...await api.listCheckpoints(workspaceOf(context)) });
  } catch (cause) {
    context.store.dispatch({ type: "checkpoints.failed", problem: said(cause) });
  }
}

export function ask(context: Context, dialog: TimeDialog): void {
  context.store.dispatch({ type: "dialog.opened", dialog });
  if (dialog.kind === "restore") void weigh(context, dialog.checkpoint);
}

export async function take(context: Context, wanted: api.NewCheckpoint): Promise<void> {
  await throughDialog(context, async () => {
    const checkpoint = await api.takeCheckpoint(workspaceOf(context), wanted);
    context.store.dispatch({ type: "checkpoint.changed", checkpoint });
  });
}

/** How long a person is ready to look at a dialog that may still say more. */
const weighingMs = 8000;

/** What a restore would undo, where that is known soon; the dialog says "everything" until then. */
async function weigh(context: Context, id: string): Promise<void> {
  try {
    const loss = await api.readLoss(workspaceOf(context), id, AbortSignal.timeout(weighingMs));
    context.store.dispatch({ type: "loss.known", loss });
  } catch {
    // It cannot be told, or not soon: what the dialog says already is true anyway.
  }
}

export async function restore(context: Context, id: string): Promise<void> {
  await throughDialog(context, () => goBack(context, id));
}

/** Undo is a restore like any other, of the point that was taken just before. It asks nothing: it can be undone too. */
export async function undo(context: Context, safety: string): Promise<void> {
  try {
    await goBack(context, safety);
  } catch (cause) {
    raiseProblem(context, cause);
  }
}

async function goBack(context: Context, id: string): Promise<void> {
  const workspace = await api.restoreCheckpoint(workspaceOf(context), id);
  context.store.dispatch({ type: "workspace.changed", workspace });
}

export async function fork(context: Context, id: string, name: string, count: number): Promise<void> {
  await throughDialog(context, async () => {
    const made = await api.forkCheckpoint(workspaceOf(context), id, name, count);
    raise(context, "info", `${made.map((one) => one.name).join(", ")}: being made. Find ${made.length > 1 ? "them" : "it"} in the list of workspaces.`);
  });
}

export async function rename(context: Context, id: string, name: string, comment: string): Promise<void> {
  await throughDialog(context, async () => {
    const checkpoint = await api.renameCheckpoint(workspaceOf(context), id, name, comment);
    context.store.dispatch({ type: "checkpoint.changed", checkpoint });
  });
}

export async function remove(context: Context, id: string): Promise<void> {
  await throughDialog(context, async () => {
    await api.deleteCheckpoint(workspaceOf(context), id);
    await load(context);
  });
}
