/** What a person may do with checkpoints. Called by views and pages.ts; calls api/checkpoints, tells the store. */

import * as api from "../api/checkpoints";
import { said } from "../api/client";
import { listExecs } from "../api/execs";
import { commandWords } from "../state/steps";
import type { TimeDialog } from "../state/types";
import { raise, raiseProblem, throughDialog, type Context } from "./context";
import * as past from "./past";

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
  if (dialog.kind === "browse") void past.goTo(context, dialog.checkpoint, context.store.get().home || "/home/user");
}

export function askCompare(context: Context, a: string, b: string): void {
  ask(context, { kind: "compare-points" });
  void past.compare(context, a, b);
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
    const [loss, programs] = await Promise.all([
      api.readLoss(workspaceOf(context), id, AbortSignal.timeout(weighingMs)), runningPrograms(context)]);
    context.store.dispatch({ type: "loss.known", loss: { ...loss, programs } });
  } catch {
    // It cannot be told, or not soon: what the dialog says already is true anyway.
  }
}

/** What sleeps runs nothing that is asked for here: asking is no reason to wake it. */
async function runningPrograms(context: Context): Promise<string[]> {
  const { workspaces, page } = context.store.get();
  if (workspaces[page.workspace]?.state !== "running") return [];
  const running = await listExecs(page.workspace, "running").catch(() => []);
  return running.map((exec) => commandWords(exec.command));
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
    if (made.length === 1) return location.assign(`/workspaces/${made[0]!.id}`);
    raise(context, "info", `${made.map((one) => one.name).join(", ")}: being made. They are linked from the checkpoint.`);
    await past.loadForks(context);
  });
}

export async function rename(context: Context, id: string, name: string, comment: string): Promise<void> {
  await throughDialog(context, async () => {
    const checkpoint = await api.changeCheckpoint(workspaceOf(context), id, { name, comment });
    context.store.dispatch({ type: "checkpoint.changed", checkpoint });
  });
}

/** Nothing but a person takes it from now on. */
export async function keep(context: Context, id: string): Promise<void> {
  try {
    context.store.dispatch({ type: "checkpoint.changed", checkpoint: await api.changeCheckpoint(workspaceOf(context), id, { expires_at: null }) });
  } catch (cause) {
    raiseProblem(context, cause);
  }
}

export async function remove(context: Context, id: string): Promise<void> {
  await throughDialog(context, async () => {
    await api.deleteCheckpoint(workspaceOf(context), id);
    await load(context);
  });
}
