/** Checkpoints, restores, forks and what a restore would undo, over REST. Called by commands; no state. */

import type { Checkpoint, Loss, Workspace } from "../state/types";
import { ask, askJson, idempotencyKey } from "./client";

const workspaceUrl = (workspace: string): string => `/api/v1/workspaces/${workspace}`;
const checkpoints = (workspace: string): string => `${workspaceUrl(workspace)}/checkpoints`;
const once = (): Record<string, string> => ({ "Idempotency-Key": idempotencyKey() });

export interface NewCheckpoint { name: string; comment: string; memory?: boolean }

/** The newest of them; `more` when there are others. */
export async function listCheckpoints(workspace: string): Promise<{ checkpoints: Checkpoint[]; more: boolean }> {
  const page: { results: Checkpoint[]; next: string | null } = await askJson(`${checkpoints(workspace)}?limit=200`);
  return { checkpoints: page.results, more: page.next !== null };
}

export function takeCheckpoint(workspace: string, wanted: NewCheckpoint): Promise<Checkpoint> {
  return askJson(checkpoints(workspace), { method: "POST", json: wanted, headers: once() });
}

export function renameCheckpoint(workspace: string, id: string, name: string, comment: string): Promise<Checkpoint> {
  return askJson(`${checkpoints(workspace)}/${id}`, { method: "PATCH", json: { name, comment } });
}

export async function deleteCheckpoint(workspace: string, id: string): Promise<void> {
  await ask(`${checkpoints(workspace)}/${id}`, { method: "DELETE" });
}

export function restoreCheckpoint(workspace: string, id: string): Promise<Workspace> {
  return askJson(`${checkpoints(workspace)}/${id}/restore`, { method: "POST", json: {}, headers: once() });
}

export async function forkCheckpoint(workspace: string, id: string, name: string, count: number): Promise<Workspace[]> {
  const made: { results: Workspace[] } = await askJson(`${workspaceUrl(workspace)}/fork`,
    { method: "POST", json: { name, checkpoint: id, count }, headers: once() });
  return made.results;
}

interface Difference { path: string; change: "added" | "modified" | "removed" | "type" }

const shownPaths = 6;

/** What differs on the disk now from the checkpoint. */
export async function readLoss(workspace: string, id: string, signal: AbortSignal): Promise<Loss> {
  const page: { results: Difference[]; next?: string | null } =
    await askJson(`${checkpoints(workspace)}/${id}/diff?against=head`, { signal });
  const count = (...changes: string[]): number => page.results.filter((one) => changes.includes(one.change)).length;
  return {
    checkpoint: id, added: count("added"), modified: count("modified", "type"), removed: count("removed"),
    paths: page.results.slice(0, shownPaths).map((one) => one.path), more: Boolean(page.next),
  };
}
