/** What a workspace uses, now and over the last hour, over REST. Called by commands/metrics.ts; looking wakes nothing. */

import type { Metrics } from "../state/types";
import { askJson } from "./client";

export function readMetrics(workspace: string): Promise<Metrics> {
  return askJson(`/api/v1/workspaces/${workspace}/metrics`);
}
