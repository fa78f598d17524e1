/** What every command needs: the store, and a way to tell a person what went wrong. Made once by main.ts. */

import { said } from "../api/client";
import { Problem } from "../api/problem";
import type { Store } from "../state/store";
import type { Notice } from "../state/types";

let noticeId = 0;

export interface Context {
  store: Store;
}

export function raise(context: Context, tone: Notice["tone"], text: string): void {
  const id = ++noticeId;
  context.store.dispatch({ type: "notice.raised", notice: { id, tone, text } });
  // Good news goes by itself; a problem stays until it is read.
  if (tone === "info") setTimeout(() => context.store.dispatch({ type: "notice.dismissed", id }), 6000);
}

export function raiseProblem(context: Context, cause: unknown): void {
  raise(context, "error", said(cause));
}

/** Runs what a dialog asked for: the dialog waits, shows the refusal, or closes. */
export async function throughDialog(context: Context, work: () => Promise<void>): Promise<void> {
  context.store.dispatch({ type: "dialog.busy" });
  try {
    await work();
    context.store.dispatch({ type: "dialog.closed" });
  } catch (cause) {
    failDialog(context, said(cause), cause instanceof Problem ? cause.errors : {});
  }
}

/** Says in the dialog what is wrong, beside the fields it is about; the first of them is where one goes on. */
export function failDialog(context: Context, problem: string, errors: Record<string, string> = {}): void {
  context.store.dispatch({ type: "dialog.failed", problem, errors });
  requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector<HTMLElement>("dialog [aria-invalid='true']")?.focus()));
}

/** A closing dialog gives the focus back to where it was; what takes the focus itself comes after that. */
export function afterDraw(act: () => void): void {
  requestAnimationFrame(() => requestAnimationFrame(act));
}
