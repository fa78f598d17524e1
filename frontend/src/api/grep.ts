/**
 * Lines that fit a regular expression, by grep in the workspace. Called by commands/search.ts.
 *
 * The server's own search is literal, because an expression of a stranger could hold it; grep is a command like any other:
 * with the person's rights, seen in Activity, ended when it is no longer wanted, and bounded in time and output.
 */

import { passedOver } from "../state/picker";
import type { FoundFile, SearchWanted } from "../state/search";
import type { Exec } from "../state/types";
import { askJson, idempotencyKey } from "./client";

interface Ended extends Exec { stdout_b64?: string; stderr_b64?: string; stdout_truncated?: boolean }

const longest_s = 20;
const mostBytes = 900_000;

export async function grep(workspace: string, root: string, wanted: SearchWanted, signal: AbortSignal): Promise<{ files: FoundFile[]; more: boolean }> {
  const execs = `/api/v1/workspaces/${workspace}/execs`;
  const begun: Exec = await askJson(execs, {
    method: "POST", signal, headers: { "Idempotency-Key": idempotencyKey() },
    json: { command: ["grep", ...argumentsFor(wanted)], cwd: root, timeout_s: longest_s, wait_s: 0, max_output_bytes: mostBytes },
  });
  const stop = (): void => void askJson(`${execs}/${begun.id}`, { method: "DELETE" }).catch(() => undefined);
  signal.addEventListener("abort", stop, { once: true });
  try {
    return answer(root, await askJson(`${execs}/${begun.id}?wait_s=${longest_s + 5}&encoding=base64`, { signal }));
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

function argumentsFor({ text, matchCase, glob }: SearchWanted): string[] {
  return [`-rsnIZE${matchCase ? "" : "i"}`, "-e", text, "-m", "100", ...(glob ? [`--include=${glob}`] : []),
    ...passedOver.map((name) => `--exclude-dir=${name}`), "--", "."];
}

function answer(root: string, exec: Ended): { files: FoundFile[]; more: boolean } {
  const output = bytesOf(exec.stdout_b64);
  const said = new TextDecoder().decode(bytesOf(exec.stderr_b64)).trim();
  if (output.length === 0 && said) throw new Error(said.split("\n")[0]!.replace(/^grep: /, "grep says: "));
  return { files: filesIn(root, output), more: exec.stdout_truncated === true || exec.outcome?.kind === "timed_out" };
}

function bytesOf(base64 = ""): Uint8Array {
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}

/** "./path NUL number : text", a line each; the last may be cut off. */
export function filesIn(root: string, output: Uint8Array): FoundFile[] {
  const files = new Map<string, FoundFile>();
  for (const line of new TextDecoder().decode(output).split("\n")) {
    const [, name, number, text] = /^\.\/([^\0]+)\0(\d+):(.*)$/s.exec(line) ?? [];
    if (name === undefined || number === undefined || text === undefined) continue;
    const path = `${root}/${name}`;
    const file = files.get(path) ?? { path, lines: [], cut: false };
    file.lines.push({ line: Number(number), column: 0, text });
    files.set(path, { ...file, cut: file.lines.length >= 100 });
  }
  return [...files.values()];
}
