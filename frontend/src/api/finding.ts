/**
 * Names and contents looked for over REST. Called by commands/picker.ts and commands/search.ts; each page of an answer is
 * told as it comes, and a signal ends the asking.
 */

import { mostPaths, passedOver } from "../state/picker";
import type { FoundFile, SearchWanted } from "../state/search";
import type { FileEntry } from "../state/types";
import { askJson, pathOnly } from "./client";
import { exactPath, type Listing, type Source } from "./files";
import { encodePath } from "./path";

interface Match { line: number; column: number; text: string }
interface Results { results: (FileEntry & { matches?: Match[]; cut?: boolean })[]; next?: string | null }

const base = (workspace: string): string => `/api/v1/workspaces/${workspace}`;
const pageSize = 1000;

/** Every file below `root`, up to `mostPaths` entries; answers whether there are more. */
export async function listPaths(workspace: string, root: string, source: Source, signal: AbortSignal,
                                told: (paths: string[]) => void): Promise<boolean> {
  const where = `path=${encodePath(root)}&limit=${pageSize}`;
  let next: string | null = source === "live"
    ? `${base(workspace)}/files/search?${where}&pattern=*&exclude=${passedOver.join(",")}`
    : `${base(workspace)}/checkpoints/head/files?${where}&recursive=true`;
  let seen = 0;
  while (next && seen < mostPaths) {
    const page: Results & Partial<Listing> = await askJson(next, { signal });
    const entries = page.results ?? page.entries ?? [];
    seen += entries.length;
    told(entries.filter((one) => one.type !== "directory").map(exactPath).filter((path) => !isPassedOver(path.slice(root.length))));
    next = page.next ? pathOnly(page.next) : null;
  }
  return next !== null;
}

function isPassedOver(path: string): boolean {
  return path.split("/").some((part) => passedOver.includes(part));
}

/** One page of lines; `next` goes on where it ended. */
export async function searchPage(workspace: string, root: string, wanted: SearchWanted, next: string | null,
                                 signal: AbortSignal): Promise<{ files: FoundFile[]; next: string | null }> {
  const page: Results = await askJson(next ?? searchUrl(workspace, root, wanted), { signal });
  const files = page.results.map((one) => ({ path: exactPath(one), lines: one.matches ?? [], cut: one.cut ?? false }));
  return { files, next: page.next ? pathOnly(page.next) : null };
}

function searchUrl(workspace: string, root: string, { text, matchCase, glob }: SearchWanted): string {
  const parts = [`path=${encodePath(root)}`, `content=${encodeURIComponent(text)}`, `any_case=${!matchCase}`, "limit=100",
    `exclude=${passedOver.join(",")}`];
  if (glob) parts.push(`pattern=${encodeURIComponent(glob)}`);
  return `${base(workspace)}/files/search?${parts.join("&")}`;
}
