/** Workspaces, their events and the session over REST. Called by commands; one function a call, no state. */

import type { BerthEvent, Terms, Workspace } from "../state/types";
import { ask, askJson, idempotencyKey, pathOnly } from "./client";

const root = "/api/v1";

interface Page<T> { results: T[]; next: string | null }

export type { Page };

export type PowerCommand = "start" | "stop" | "restart" | "standby" | "undelete";

export interface NewWorkspace {
  name: string;
  cpus: number;
  memory_mib: number;
  disk_gib: number;
  image?: string;
  labels?: Record<string, string>;
  idle?: Record<string, number>;
}

/** Every workspace one may see, page after page. */
export async function listWorkspaces(): Promise<Workspace[]> {
  const all: Workspace[] = [];
  let next: string | null = `${root}/workspaces?limit=200`;
  while (next) {
    const page: Page<Workspace> = await askJson(next);
    all.push(...page.results);
    next = page.next ? pathOnly(page.next) : null;
  }
  return all;
}

/** One page of them, as it was asked for (state/listing.ts). */
export function listPage(query: string): Promise<Page<Workspace>> {
  return askJson(`${root}/workspaces?${query}`);
}

/** What a new one may be made of. */
export async function listImages(): Promise<string[]> {
  const page: Page<{ name: string }> = await askJson(`${root}/images`);
  return page.results.map((one) => one.name);
}

/** What policy says for oneself. */
export async function readTerms(): Promise<Terms> {
  return (await askJson<{ terms: Terms }>(`${root}/policies/effective`)).terms;
}

export function readWorkspace(id: string): Promise<Workspace> {
  return askJson(`${root}/workspaces/${id}`);
}

export function createWorkspace(wanted: NewWorkspace): Promise<Workspace> {
  return askJson(`${root}/workspaces`,
    { method: "POST", json: wanted, headers: { "Idempotency-Key": idempotencyKey() } });
}

export function commandWorkspace(id: string, command: PowerCommand): Promise<Workspace> {
  return askJson(`${root}/workspaces/${id}/${command}`,
    { method: "POST", json: {}, headers: { "Idempotency-Key": idempotencyKey() } });
}

export function deleteWorkspace(id: string): Promise<Workspace | undefined> {
  return askJson(`${root}/workspaces/${id}`, { method: "DELETE" });
}

/** The newest of those with a smaller number, oldest first; `more` when there are others before them. */
export async function readEventsBefore(id: string, before: number): Promise<{ events: BerthEvent[]; more: boolean }> {
  const page: Page<BerthEvent> = await askJson(`${root}/workspaces/${id}/events?before=${before}&limit=200`);
  return { events: page.results, more: page.next !== null };
}

export async function signIn(username: string, password: string): Promise<void> {
  await ask(`${root}/session`, { method: "POST", json: { username, password }, anonymous: true });
}

export async function setUp(code: string, password: string): Promise<void> {
  await ask(`${root}/session/setup`, { method: "POST", json: { code, password }, anonymous: true });
}

/** Asks whether the session still lives: an answer of 401 leads to sign-in by itself (client.ts). */
export async function checkSession(): Promise<void> {
  await ask(`${root}/me`);
}

export async function signOut(): Promise<void> {
  await ask(`${root}/session`, { method: "DELETE", anonymous: true, farewell: true });
}
