/** Listening ports of a guest, and who may look at them from outside, over REST. Called by commands/ports.ts; no state. */

import type { Port, Share, Visibility } from "../state/types";
import { ask, askJson, idempotencyKey, pathOnly } from "./client";

const workspaceUrl = (workspace: string): string => `/api/v1/workspaces/${workspace}`;

/** Looking is no use of the workspace; a sleeping one answers `not_running`. */
export async function listPorts(workspace: string): Promise<Port[]> {
  const page: { results: Port[] } = await askJson(`${workspaceUrl(workspace)}/ports`);
  return page.results;
}

export async function listShares(workspace: string): Promise<Share[]> {
  const all: Share[] = [];
  let next: string | null = `${workspaceUrl(workspace)}/shares`;
  while (next) {
    const page: { results: Share[]; next: string | null } = await askJson(next);
    all.push(...page.results);
    next = page.next ? pathOnly(page.next) : null;
  }
  return all;
}

export function share(workspace: string, port: number, visibility: Visibility, seconds: number | null): Promise<Share> {
  return askJson(`${workspaceUrl(workspace)}/ports/${port}/share`,
    { method: "POST", json: { visibility, ...(seconds ? { expires_in_s: seconds } : {}) }, headers: { "Idempotency-Key": idempotencyKey() } });
}

export async function unshare(workspace: string, port: number): Promise<void> {
  await ask(`${workspaceUrl(workspace)}/ports/${port}/share`, { method: "DELETE" });
}
