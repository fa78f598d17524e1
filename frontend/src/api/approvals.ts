/** Acts of tokens that wait for a member, over REST. Called by commands; no state. */

import type { Approval } from "../state/types";
import { ask, askJson } from "./client";

const approvals = (workspace: string): string => `/api/v1/workspaces/${workspace}/approvals`;

/** Those that wait now, newest first. */
export async function listPending(workspace: string): Promise<Approval[]> {
  const page: { results: Approval[] } = await askJson(`${approvals(workspace)}?state=pending`);
  return page.results;
}

export async function decide(workspace: string, id: string, decision: "approve" | "deny"): Promise<void> {
  await ask(`${approvals(workspace)}/${id}`, { method: "POST", json: { decision } });
}
