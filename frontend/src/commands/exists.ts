/** Asks what to do where a name is taken already, one question at a time. Called by files.ts and uploads.ts; answered by views/entry-dialogs.ts. */

import type { Context } from "./context";

export interface Answer { choice: "both" | "replace" | "skip" | "cancel"; all: boolean }

export interface Question { name: string; folder: string; more: boolean; copies: boolean }

let answered: ((answer: Answer) => void) | null = null;
let before: Promise<unknown> = Promise.resolve();

/** A dialog that is put away without an answer is a no to all of it. */
export function askWhatToDo(context: Context, question: Question): Promise<Answer> {
  const mine = before.then(() => ask(context, question));
  before = mine;
  return mine;
}

async function ask(context: Context, question: Question): Promise<Answer> {
  await until(context, () => context.store.get().dialog === null);
  const answer = new Promise<Answer>((resolve) => { answered = resolve; });
  context.store.dispatch({ type: "dialog.opened", dialog: { kind: "exists", ...question } });
  void until(context, () => context.store.get().dialog?.kind !== "exists").then(() => decide(context, { choice: "cancel", all: true }));
  return answer;
}

export function decide(context: Context, answer: Answer): void {
  const resolve = answered;
  answered = null;
  if (context.store.get().dialog?.kind === "exists") context.store.dispatch({ type: "dialog.closed" });
  resolve?.(answer);
}

function until(context: Context, holds: () => boolean): Promise<void> {
  if (holds()) return Promise.resolve();
  return new Promise((resolve) => {
    const stop = context.store.subscribe(() => {
      if (!holds()) return;
      stop();
      resolve();
    });
  });
}
