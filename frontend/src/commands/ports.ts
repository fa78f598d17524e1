/** Looking at ports, opening a preview, sharing and revoking. Called by views and pages.ts; calls api/ports. */

import * as api from "../api/ports";
import { said } from "../api/client";
import { Problem } from "../api/problem";
import type { Visibility } from "../state/types";
import { raise, raiseProblem, throughDialog, type Context } from "./context";

const isRunning = (context: Context): boolean => context.store.get().workspaces[workspaceOf(context)]?.state === "running";
const workspaceOf = (context: Context): string => context.store.get().page.workspace;

export async function load(context: Context): Promise<void> {
  const workspace = workspaceOf(context);
  const shares = await api.listShares(workspace).catch(() => null);
  if (shares) context.store.dispatch({ type: "ports.changed", change: { shares } });
  if (!isRunning(context)) return context.store.dispatch({ type: "ports.changed", change: { status: "asleep", ports: [] } });
  try {
    context.store.dispatch({ type: "ports.changed", change: { status: "listed", problem: "", ports: await api.listPorts(workspace) } });
  } catch (cause) {
    const asleep = cause instanceof Problem && (cause.code === "not_running" || cause.status === 409);
    context.store.dispatch({ type: "ports.changed", change: asleep ? { status: "asleep", ports: [] } : { status: "failed", problem: said(cause) } });
  }
}

const lookEveryMs = 5000;

/** Looks now, and gently again while the list is really in sight. Called as the list comes onto the page; answers how to end it. */
export function watch(context: Context, list: HTMLElement): () => void {
  void load(context);
  const timer = setInterval(() => {
    if (isRunning(context) && !document.hidden && list.checkVisibility()) void load(context);
  }, lookEveryMs);
  return () => clearInterval(timer);
}

export function show(context: Context, port: number): void {
  context.store.dispatch({ type: "ports.changed", change: { preview: port } });
  if (port) context.store.dispatch({ type: "pane.shown", pane: "editor" });
}

export async function share(context: Context, port: number, visibility: Visibility, seconds: number | null): Promise<void> {
  await throughDialog(context, async () => {
    context.store.dispatch({ type: "share.made", share: await api.share(workspaceOf(context), port, visibility, seconds) });
  });
}

export async function unshare(context: Context, port: number): Promise<void> {
  try {
    await api.unshare(workspaceOf(context), port);
    raise(context, "info", `Port ${port} is no longer shared. Whoever came by the share is out.`);
  } catch (cause) {
    raiseProblem(context, cause);
  }
  await load(context);
}

export async function copy(context: Context, text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    raise(context, "info", "The link is copied.");
  } catch {
    raise(context, "error", "Your browser did not let the page copy. Open the link and copy its address.");
  }
}
