/**
 * Files and whole folders from a person's machine into the workspace: dropped or chosen. Called by views.
 *
 * A few at a time; a taken name is asked about once or for all; what failed is listed with its reason and nothing of it is
 * left half there, because each file takes its name when it is whole.
 */

import { makeFolder } from "../api/files";
import { said } from "../api/client";
import { joinPath } from "../api/path";
import { Problem } from "../api/problem";
import { uploadFile } from "../api/upload";
import type { Uploads } from "../state/uploads";
import { parentOf, readable } from "../state/words";
import { raise, type Context } from "./context";
import { askWhatToDo, type Answer } from "./exists";
import * as files from "./files";
import { freeName } from "./moving";

export interface Item { path: string; file: File | null }

const mostItems = 5000;
const atOnce = 3;
let stop: AbortController | null = null;

/** Must be called while the drop is being told: a browser forgets what was dropped right after. */
export function dropped(context: Context, folder: string, data: DataTransfer): void {
  const roots = [...data.items].map((item) => ({ entry: item.webkitGetAsEntry(), file: item.getAsFile() }));
  const loose = roots.flatMap(({ entry, file }): Item[] => (entry === null && file ? [{ path: file.name, file }] : []));
  void gather(roots.flatMap(({ entry }) => entry ?? [])).then((items) => upload(context, folder, [...items, ...loose]), (cause: unknown) => raise(context, "error", said(cause)));
}

/** By a button: the browser's own dialog. */
export function choose(context: Context, folder: string, what: "files" | "folder"): void {
  const input = document.createElement("input");
  input.type = "file";
  input.multiple = true;
  input.webkitdirectory = what === "folder";
  input.onchange = () => void upload(context, folder, [...(input.files ?? [])].map((file) => ({ path: file.webkitRelativePath || file.name, file })));
  input.click();
}

export function cancel(): void {
  stop?.abort();
}

export function putAway(context: Context): void {
  context.store.dispatch({ type: "uploads.ended" });
}

/** Everything below what was dropped; a folder comes before what is in it. */
async function gather(roots: FileSystemEntry[]): Promise<Item[]> {
  const items: Item[] = [];
  const waiting = [...roots];
  for (let entry = waiting.shift(); entry; entry = waiting.shift()) {
    const path = entry.fullPath.replace(/^\/+/, "");
    if (entry.isFile) items.push({ path, file: await new Promise<File>((done, failed) => (entry as FileSystemFileEntry).file(done, failed)) });
    else {
      items.push({ path, file: null });
      waiting.push(...(await childrenOf(entry as FileSystemDirectoryEntry)));
    }
  }
  return items;
}

/** A browser gives them in pieces until one is empty. */
async function childrenOf(folder: FileSystemDirectoryEntry): Promise<FileSystemEntry[]> {
  const reader = folder.createReader();
  const all: FileSystemEntry[] = [];
  for (;;) {
    const piece = await new Promise<FileSystemEntry[]>((done, failed) => reader.readEntries(done, failed));
    if (piece.length === 0) return all;
    all.push(...piece);
  }
}

async function upload(context: Context, folder: string, items: Item[]): Promise<void> {
  const { store } = context;
  if (items.length === 0) return;
  if (stop) return raise(context, "error", "An upload is under way. Wait for it, or cancel it.");
  if (items.length > mostItems) return raise(context, "error", `These are ${items.length} files and folders; at most ${mostItems} go at once. Upload an archive of them and unpack it.`);
  stop = new AbortController();
  const work = new Work(context, folder, items, stop.signal);
  try {
    await work.run();
  } finally {
    const cancelled = stop.signal.aborted;
    stop = null;
    await files.refresh(context);
    const { done = 0, failed = [] } = store.get().uploads ?? {};
    if (cancelled || failed.length === 0) store.dispatch({ type: "uploads.ended" });
    else store.dispatch({ type: "uploads.changed", change: { running: false } });
    if (cancelled) raise(context, "info", `Cancelled. ${done} of ${work.files.length} files are there.`);
    else if (done > 0) raise(context, "info", `Uploaded ${done === 1 ? "1 file" : `${done} files`} to ${readable(folder)}.`);
  }
}

/** One upload of many files. */
class Work {
  readonly files: Item[];
  private readonly sent = new Map<string, number>();
  private done = 0;
  private answer: Answer | null = null;

  constructor(private readonly context: Context, private readonly folder: string, private readonly items: Item[], private readonly signal: AbortSignal) {
    this.files = items.filter((item) => item.file);
    const bytes = this.files.reduce((sum, item) => sum + item.file!.size, 0);
    context.store.dispatch({ type: "uploads.begun", folder: readable(folder), files: this.files.length, bytes });
  }

  async run(): Promise<void> {
    for (const item of this.items.filter((one) => !one.file)) await this.attempt(item, () => this.makeFolder(item));
    const waiting = [...this.files];
    const worker = async (): Promise<void> => {
      for (let item = waiting.shift(); item && !this.signal.aborted; item = waiting.shift()) {
        const mine = item;
        await this.attempt(mine, () => this.send(mine, joinPath(this.folder, mine.path), false));
      }
    };
    await Promise.all(Array.from({ length: atOnce }, worker));
  }

  private async attempt(item: Item, act: () => Promise<void>): Promise<void> {
    if (this.signal.aborted) return;
    try {
      await act();
    } catch (cause) {
      if (!this.signal.aborted) this.failed(item, said(cause));
    }
  }

  private async makeFolder(item: Item): Promise<void> {
    try {
      await makeFolder(this.workspace, joinPath(this.folder, item.path));
    } catch (cause) {
      if (!(cause instanceof Problem) || cause.code !== "file_exists") throw cause;
    }
  }

  private async send(item: Item, path: string, overwrite: boolean): Promise<void> {
    try {
      await uploadFile({ workspace: this.workspace, path, body: item.file!, overwrite, signal: this.signal, progress: (bytes) => this.progressed(item, bytes) });
      this.done += 1;
      this.tell({ done: this.done });
    } catch (cause) {
      if (!(cause instanceof Problem) || cause.code !== "precondition_failed") throw cause;
      this.progressed(item, 0);
      await this.taken(item, path);
    }
  }

  private async taken(item: Item, path: string): Promise<void> {
    const answer = this.answer ?? await this.ask(path);
    if (answer.all) this.answer = answer;
    if (answer.choice === "cancel") return void stop?.abort();
    if (answer.choice === "replace") await this.send(item, path, true);
    if (answer.choice === "both") await this.send(item, await freeName(this.context, path), false);
    if (answer.choice === "skip") this.progressed(item, item.file!.size);
  }

  /** Several may come to a taken name at once: who waited for the question of another looks at its answer first. */
  private asking: Promise<unknown> = Promise.resolve();

  private ask(path: string): Promise<Answer> {
    const question = { name: path.slice(path.lastIndexOf("/") + 1), folder: parentOf(path), more: this.files.length > 1, copies: true };
    const mine = this.asking.then(() => this.answer ?? askWhatToDo(this.context, question)).then((answer) => {
      if (answer.all) this.answer = answer;
      return answer;
    });
    this.asking = mine;
    return mine;
  }

  private progressed(item: Item, bytes: number): void {
    this.sent.set(item.path, bytes);
    this.tell({ sent: [...this.sent.values()].reduce((sum, one) => sum + one, 0) });
  }

  private failed(item: Item, problem: string): void {
    const failed = this.context.store.get().uploads?.failed ?? [];
    this.tell({ failed: [...failed, { name: item.path, problem }] });
  }

  private tell(change: Partial<Uploads>): void {
    this.context.store.dispatch({ type: "uploads.changed", change });
  }

  private get workspace(): string {
    return this.context.store.get().page.workspace;
  }
}
