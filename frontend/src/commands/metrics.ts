/** Keeps the figures of the header, and those of the list, fresh while somebody looks. Called by the views that draw them; calls api/metrics. */

import { readHours, readMetrics } from "../api/metrics";
import { runningIds } from "../state/metrics";
import type { Context } from "./context";

const everyMs = 15_000;

/** Called as the drawing comes onto the page; answers how to end it. */
export function watch(context: Context): () => void {
  const look = (): void => { if (!document.hidden) void load(context); };
  const timer = setInterval(look, everyMs);
  document.addEventListener("visibilitychange", look);
  look();
  return () => { clearInterval(timer); document.removeEventListener("visibilitychange", look); };
}

async function load(context: Context): Promise<void> {
  // A quiet drawing: without an answer the last one stays.
  const metrics = await readMetrics(context.store.get().page.workspace).catch(() => null);
  if (metrics) context.store.dispatch({ type: "metrics.read", metrics });
}

const listEveryMs = 60_000;
/** A list that is being read, or a row that wakes, is asked about once it rests. */
const settleMs = 300;

/** Of those rows of the list that run, all in one question; where none does, nothing is asked. */
export function watchList(context: Context): () => void {
  let asked = "";
  let due: ReturnType<typeof setTimeout> | undefined;
  const ids = (): string => runningIds(context.store.get()).join();
  const look = (): void => {
    asked = ids();
    // Where the drawing has no room nobody asks for it.
    if (asked && !document.hidden && document.querySelector(".row-sparks")?.getClientRects().length) void loadHours(context, asked.split(","));
  };
  const heard = (): void => {
    if (ids() === asked) return;
    clearTimeout(due);
    due = setTimeout(look, settleMs);
  };
  const stop = context.store.subscribe(heard);
  const timer = setInterval(look, listEveryMs);
  document.addEventListener("visibilitychange", look);
  heard();
  return () => { stop(); clearTimeout(due); clearInterval(timer); document.removeEventListener("visibilitychange", look); };
}

async function loadHours(context: Context, ids: string[]): Promise<void> {
  const hours = await readHours(ids).catch(() => null);
  if (hours) context.store.dispatch({ type: "hours.read", hours });
}
