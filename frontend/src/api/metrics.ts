/** What a workspace uses, now and over the last hour, over REST. Called by commands/metrics.ts; looking wakes nothing. */

import type { Figures, Metrics } from "../state/types";
import { askJson } from "./client";

export function readMetrics(workspace: string): Promise<Metrics> {
  return askJson(`/api/v1/workspaces/${workspace}/metrics`);
}

interface Hour { workspace: string; interval_s: number; history: Figures[] }

/** The last hour of several in one question; `now` is their newest sample. No guest is asked. */
export async function readHours(ids: string[]): Promise<Record<string, Metrics>> {
  const { results }: { results: Hour[] } = await askJson(`/api/v1/metrics?ids=${ids.join(",")}`);
  return Object.fromEntries(results.map(({ workspace, interval_s, history }) => [workspace, { now: history.at(-1) ?? null, reason: null, interval_s, history }]));
}
