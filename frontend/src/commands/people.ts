/** Who may come into a workspace, what waits for them, and one's own tokens. Called by views and pages.ts; calls api/people. */

import * as api from "../api/people";
import { said } from "../api/client";
import type { ApprovalRules, Role } from "../state/types";
import { raise, raiseProblem, throughDialog, type Context } from "./context";

const workspaceOf = (context: Context): string => context.store.get().page.workspace;

// -- members --------------------------------------------------------------------------------------------------------

export async function loadMembers(context: Context): Promise<void> {
  try {
    context.store.dispatch({ type: "members.listed", members: await api.listMembers(workspaceOf(context)) });
  } catch (cause) {
    raiseProblem(context, cause);
  }
}

/** The dialog stays, for the next one; what is wrong is said in it. Answers whether it was done. */
async function inDialog(context: Context, work: () => Promise<void>): Promise<boolean> {
  context.store.dispatch({ type: "dialog.busy" });
  const problem = await work().then(() => "", said);
  context.store.dispatch({ type: "dialog.failed", problem });
  await loadMembers(context);
  return problem === "";
}

export function add(context: Context, user: string, role: Role): Promise<boolean> {
  return inDialog(context, () => api.addMember(workspaceOf(context), user, role));
}

export function change(context: Context, user: string, role: Role): Promise<boolean> {
  return inDialog(context, () => api.changeMember(workspaceOf(context), user, role));
}

export function remove(context: Context, user: string): Promise<boolean> {
  return inDialog(context, () => api.removeMember(workspaceOf(context), user));
}

export async function leave(context: Context, user: string): Promise<void> {
  await throughDialog(context, async () => {
    await api.removeMember(workspaceOf(context), user);
    location.assign("/");
  });
}

export async function breakGlass(context: Context, reason: string, role: Role, seconds: number): Promise<void> {
  await throughDialog(context, async () => {
    await api.breakGlass(workspaceOf(context), reason, role, seconds);
    location.reload();
  });
}

export async function setApprovals(context: Context, rules: ApprovalRules): Promise<void> {
  await throughDialog(context, async () => {
    context.store.dispatch({ type: "workspace.changed", workspace: await api.setApprovals(workspaceOf(context), rules) });
  });
}

// -- tokens ---------------------------------------------------------------------------------------------------------

export async function loadTokens(context: Context): Promise<void> {
  try {
    context.store.dispatch({ type: "account.changed", change: { status: "listed", problem: "", tokens: await api.listTokens() } });
  } catch (cause) {
    context.store.dispatch({ type: "account.changed", change: { status: "failed", problem: said(cause) } });
  }
}

export async function makeToken(context: Context, wanted: api.NewToken): Promise<void> {
  await throughDialog(context, async () => {
    const { secret, ...token } = await api.makeToken(wanted);
    context.store.dispatch({ type: "account.changed", change: { made: secret ? { token, secret } : null } });
    await loadTokens(context);
  });
}

export async function revokeToken(context: Context, id: string): Promise<void> {
  await throughDialog(context, async () => {
    await api.revokeToken(id);
    const { made } = context.store.get().account;
    if (made?.token.id === id) context.store.dispatch({ type: "account.changed", change: { made: null } });
    await loadTokens(context);
  });
}

export async function copySecret(context: Context, secret: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(secret);
    raise(context, "info", "The token is copied.");
  } catch {
    raise(context, "error", "Your browser did not let the page copy. Select the token and copy it.");
  }
}
