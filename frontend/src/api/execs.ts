/** Execs over REST. Called by commands; the bytes of a terminal travel in terminal/connection.ts. */

import type { Exec } from "../state/types";
import { askJson, idempotencyKey } from "./client";

const execs = (workspace: string): string => `/api/v1/workspaces/${workspace}/execs`;

/** A login shell in a terminal of this size, as the workspace's ordinary user. */
export function startShell(workspace: string, cols: number, rows: number): Promise<Exec> {
  const wanted = { command: ["/bin/bash", "-l"], tty: { cols, rows }, env: { TERM: "xterm-256color", COLORTERM: "truecolor" } };
  return askJson(execs(workspace),
    { method: "POST", json: wanted, headers: { "Idempotency-Key": idempotencyKey() } });
}

export async function listExecs(workspace: string): Promise<Exec[]> {
  const page: { results: Exec[] } = await askJson(`${execs(workspace)}?limit=200`);
  return page.results;
}

export function readExec(workspace: string, id: string): Promise<Exec> {
  return askJson(`${execs(workspace)}/${id}`);
}

export async function killExec(workspace: string, id: string): Promise<void> {
  await askJson(`${execs(workspace)}/${id}`, { method: "DELETE" });
}
