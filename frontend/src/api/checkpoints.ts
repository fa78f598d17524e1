/** Checkpoints, restores, forks and what a restore would undo, over REST. Called by commands; no state. */

import { countsOf, type Difference } from "../state/past";
import type { Checkpoint, FileEntry, Loss, Workspace } from "../state/types";
import { ask, askJson, idempotencyKey, pathOnly } from "./client";
import { exactPath, type Listing } from "./files";
import { encodePath } from "./path";

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

export type CheckpointChange = { name?: string; comment?: string; expires_at?: null };

export function changeCheckpoint(workspace: string, id: string, change: CheckpointChange): Promise<Checkpoint> {
  return askJson(`${checkpoints(workspace)}/${id}`, { method: "PATCH", json: change });
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

const shownFiles = 8;
const pageOf = 200;

export type Differences = { differences: Difference[]; next: string };

/** What differs from one point to another, or to the disk now ("now"); `next` asks for what comes behind. */
export async function readDifferences(workspace: string, a: string, b: string, next = "", signal?: AbortSignal): Promise<Differences> {
  const first = `${checkpoints(workspace)}/${a}/diff?against=${b === "now" ? "head" : b}&limit=${pageOf}`;
  const page: { results: (Difference & { path_encoded?: string })[]; next?: string | null } = await askJson(next || first, signal ? { signal } : {});
  return { differences: page.results.map((one) => ({ ...one, path: exactPath(one) })), next: page.next ? pathOnly(page.next) : "" };
}

/** What a restore would undo of the files. */
export async function readLoss(workspace: string, id: string, signal: AbortSignal): Promise<Omit<Loss, "programs">> {
  const { differences, next } = await readDifferences(workspace, id, "now", "", signal);
  const { added, changed, removed } = countsOf(differences);
  return { checkpoint: id, added, modified: changed, removed, files: differences.slice(0, shownFiles), more: next !== "" };
}

const shownEntries = 1000;

/** A folder as it was then. */
export async function listPast(workspace: string, id: string, folder: string): Promise<{ entries: FileEntry[]; more: boolean }> {
  const entries: FileEntry[] = [];
  let next: string | null = `${checkpoints(workspace)}/${id}/files?path=${encodePath(folder)}&limit=${pageOf}`;
  while (next && entries.length < shownEntries) {
    const page: Listing = await askJson(next);
    entries.push(...page.entries.map((entry) => ({ ...entry, path: exactPath(entry) })));
    next = page.next ? pathOnly(page.next) : null;
  }
  return { entries, more: next !== null };
}

export function pastUrl(workspace: string, id: string, path: string): string {
  return `${checkpoints(workspace)}/${id}/files/content?path=${encodePath(path)}`;
}
