/** Members of a workspace, what waits for them, and one's own tokens, over REST. Called by commands/people.ts; no state. */

import type { ApprovalRules, Member, Role, Token, Workspace } from "../state/types";
import { ask, askJson, idempotencyKey, pathOnly } from "./client";

const workspaceUrl = (workspace: string): string => `/api/v1/workspaces/${workspace}`;
const once = (): Record<string, string> => ({ "Idempotency-Key": idempotencyKey() });

async function pages<T>(first: string): Promise<T[]> {
  const all: T[] = [];
  let next: string | null = first;
  while (next) {
    const page: { results: T[]; next: string | null } = await askJson(next);
    all.push(...page.results);
    next = page.next ? pathOnly(page.next) : null;
  }
  return all;
}

export const listMembers = (workspace: string): Promise<Member[]> => pages(`${workspaceUrl(workspace)}/members`);

export async function addMember(workspace: string, user: string, role: Role): Promise<void> {
  await ask(`${workspaceUrl(workspace)}/members`, { method: "POST", json: { user, role }, headers: once() });
}

export async function changeMember(workspace: string, user: string, role: Role): Promise<void> {
  await ask(`${workspaceUrl(workspace)}/members/${encodeURIComponent(user)}`, { method: "PATCH", json: { role } });
}

export async function removeMember(workspace: string, user: string): Promise<void> {
  await ask(`${workspaceUrl(workspace)}/members/${encodeURIComponent(user)}`, { method: "DELETE" });
}

export async function breakGlass(workspace: string, reason: string, role: Role, seconds: number): Promise<void> {
  await ask(`${workspaceUrl(workspace)}/break-glass`, { method: "POST", json: { reason, role, expires_in_s: seconds }, headers: once() });
}

export function setApprovals(workspace: string, approvals: ApprovalRules): Promise<Workspace> {
  return askJson(workspaceUrl(workspace), { method: "PATCH", json: { approvals } });
}

export interface NewToken { name: string; scopes: string[]; workspace_ids?: string[]; expires_in_s?: number }

export const listTokens = (): Promise<Token[]> => pages("/api/v1/tokens?limit=200");

export function makeToken(wanted: NewToken): Promise<Token & { secret: string | null }> {
  return askJson("/api/v1/tokens", { method: "POST", json: wanted, headers: once() });
}

export async function revokeToken(id: string): Promise<void> {
  await ask(`/api/v1/tokens/${id}`, { method: "DELETE" });
}
