/** Keeping a workspace awake, and one's own use against quota. Called by views and pages.ts; calls api/holds. */

import * as api from "../api/holds";
import { holdReason } from "../state/coming";
import { raiseProblem, throughDialog, type Context } from "./context";
import { loadOne } from "./workspaces";

export async function load(context: Context): Promise<void> {
  const { workspace } = context.store.get().page;
  // What is held is also told by `awake_because`; a list that cannot be read now is read with the next event.
  const holds = await api.listHolds(workspace).catch(() => null);
  if (holds) context.store.dispatch({ type: "holds.listed", holds });
}

export async function keepAwake(context: Context, seconds: number): Promise<void> {
  await throughDialog(context, async () => {
    await api.addHold(context.store.get().page.workspace, holdReason, seconds);
    await refresh(context);
  });
}

export async function letGo(context: Context, id: string): Promise<void> {
  try {
    await api.removeHold(context.store.get().page.workspace, id);
  } catch (cause) {
    raiseProblem(context, cause);
  }
  await refresh(context);
}

async function refresh(context: Context): Promise<void> {
  await Promise.all([load(context), loadOne(context, context.store.get().page.workspace)]);
}

/** Use against quota is a quiet line: without an answer there is no line. */
export async function loadMe(context: Context): Promise<void> {
  const me = await api.readMe().catch(() => null);
  if (me) context.store.dispatch({ type: "me.loaded", me });
}
