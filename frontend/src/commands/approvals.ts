/** Looking at what waits for a member, and deciding. Called by views and pages.ts; calls api/approvals. */

import * as api from "../api/approvals";
import { raiseProblem, type Context } from "./context";

export async function load(context: Context): Promise<void> {
  // A list that cannot be read now is read with the next event; an admin who is no member sees none.
  const approvals = await api.listPending(context.store.get().page.workspace).catch(() => null);
  if (approvals) context.store.dispatch({ type: "approvals.listed", approvals });
}

export async function decide(context: Context, id: string, decision: "approve" | "deny"): Promise<void> {
  context.store.dispatch({ type: "command.sent", id, command: decision });
  try {
    await api.decide(context.store.get().page.workspace, id, decision);
  } catch (cause) {
    raiseProblem(context, cause);
  }
  await load(context);
  context.store.dispatch({ type: "command.answered", id });
}
