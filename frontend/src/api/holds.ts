/** Holds ("keep it awake until then") and who I am with my quota, over REST. Called by commands; no state. */

import type { Hold, Me } from "../state/types";
import { ask, askJson, idempotencyKey } from "./client";

const holds = (workspace: string): string => `/api/v1/workspaces/${workspace}/holds`;

export async function listHolds(workspace: string): Promise<Hold[]> {
  const page: { results: Hold[] } = await askJson(holds(workspace));
  return page.results;
}

export function addHold(workspace: string, reason: string, seconds: number): Promise<Hold> {
  return askJson(holds(workspace),
    { method: "POST", json: { reason, ttl_s: seconds }, headers: { "Idempotency-Key": idempotencyKey() } });
}

export async function removeHold(workspace: string, id: string): Promise<void> {
  await ask(`${holds(workspace)}/${id}`, { method: "DELETE" });
}

export function readMe(): Promise<Me> {
  return askJson("/api/v1/me");
}
