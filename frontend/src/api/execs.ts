/** Execs over REST. Called by commands; the bytes of a terminal travel in terminal/connection.ts. */

import type { Exec } from "../state/types";
import { ask, askJson, idempotencyKey } from "./client";

const execs = (workspace: string): string => `/api/v1/workspaces/${workspace}/execs`;

/** A login shell in a terminal of this size, as the workspace's ordinary user; `plain`: one that reads no profile. */
export function startShell(workspace: string, cols: number, rows: number, plain: boolean): Promise<Exec> {
  const command = plain ? ["/bin/bash", "--noprofile", "--norc"] : ["/bin/bash", "-l"];
  const wanted = { command, tty: { cols, rows }, env: { TERM: "xterm-256color", COLORTERM: "truecolor" } };
  return askJson(execs(workspace),
    { method: "POST", json: wanted, headers: { "Idempotency-Key": idempotencyKey() } });
}

export async function listExecs(workspace: string, state: "running" | "ended"): Promise<Exec[]> {
  const page: { results: Exec[] } = await askJson(`${execs(workspace)}?limit=200&state=${state}`);
  return page.results;
}

export function readExec(workspace: string, id: string): Promise<Exec> {
  return askJson(`${execs(workspace)}/${id}`);
}

/** Begins or ends a recording of a terminal; repeating it changes nothing. */
export function recordExec(workspace: string, id: string, on: boolean): Promise<Exec> {
  return askJson(`${execs(workspace)}/${id}/recording`, { method: "PUT", json: { on } });
}

export type CastSource = "recording" | "kept";

/** Where the asciicast file is; `kept`: of all output that is kept, recorded or not. */
export function castUrl(workspace: string, id: string, source: CastSource): string {
  return `${execs(workspace)}/${id}/recording${source === "kept" ? "?kept=true" : ""}`;
}

export async function readCastText(workspace: string, id: string, source: CastSource): Promise<string> {
  return (await ask(castUrl(workspace, id, source))).text();
}

export async function killExec(workspace: string, id: string): Promise<void> {
  await askJson(`${execs(workspace)}/${id}`, { method: "DELETE" });
}
