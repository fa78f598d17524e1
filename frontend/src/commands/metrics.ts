/** Keeps the figures of the header fresh while somebody looks. Called by the status bar; calls api/metrics. */

import { readMetrics } from "../api/metrics";
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
