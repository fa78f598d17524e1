/** The file tree: folders open on demand, everything reachable by keyboard. Reads the State; calls commands/files. */

import type { Context } from "../commands/context";
import * as editor from "../commands/editor";
import * as files from "../commands/files";
import * as search from "../commands/search";
import { mac } from "../commands/shortcuts";
import { chordWords } from "../state/chords";
import { fileSource } from "../state/files";
import type { FileEntry, State, TreeFolder, Workspace } from "../state/types";
import { baseName, bytes, exactly, readable, startWord, stateWord } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { icon } from "./icons";
import { button, iconButton } from "./parts";
import { start } from "./power";
import { searchPane } from "./search-pane";

/** "live" is changed here, "disk" only read; null is neither. */
type Source = ReturnType<typeof fileSource>;

export function filesPane(state: State, context: Context, workspace: Workspace): VNode {
  const source = fileSource(state);
  const running = source === "live";
  const home = state.home || files.homeFolder;
  return h("section", { class: source ? "files-area" : "files-area greyed", "aria-label": "Files" },
    h("div", { class: "pane-head" },
      h("h2", { title: home }, state.search.shown ? "Search" : "Files"),
      h("div", { class: "pane-tools" },
        iconButton("find", `Search in files (${chordWords("Mod+Shift+F", mac)})`, () => (state.search.shown ? search.hide(context) : search.show(context)),
          { "aria-pressed": state.search.shown ? "true" : "false" }),
        iconButton("newFile", "New file", () => ask(context, "file", home), { disabled: !running }),
        iconButton("newFolder", "New folder", () => ask(context, "directory", home), { disabled: !running }),
        iconButton("eye", "Hidden files", () => context.store.dispatch({ type: "hidden.toggled" }), { "aria-pressed": state.showHidden ? "true" : "false" }),
        iconButton("refresh", "Refresh", () => void files.refresh(context), { disabled: !source }))),
    source === "disk" && asleepBar(state, context, workspace),
    state.search.shown ? searchPane(state, context, workspace) : h("div", { class: "tree", key: "tree", onkeydown: (event: KeyboardEvent) => walk(event) },
      state.home ? contents(state, context, state.home, 0, source)
        : h("p", { class: "hint inset" }, source ? "" : "Files are read when the workspace runs.")));
}

/** Says why nothing can be changed here, and how it could be. */
function asleepBar(state: State, context: Context, workspace: Workspace): VNode {
  const word = workspace.state === "failed" ? stateWord(workspace.state) : "Asleep";
  return h("div", { class: "banner asleep", role: "status", key: "asleep" },
    h("p", null, `${word}: reading the disk.`),
    button(`${startWord(workspace.state)} to edit`, () => start(context, workspace.id),
      { class: "small", disabled: workspace.id in state.pending }));
}

function ask(context: Context, type: "file" | "directory", parent: string): void {
  context.store.dispatch({ type: "dialog.opened", dialog: { kind: "new-entry", type, parent } });
}

function contents(state: State, context: Context, path: string, depth: number, source: Source): Child {
  const folder = state.tree[path];
  if (!folder || folder.status === "unknown") return null;
  if (folder.status === "failed") return h("p", { class: "problem inset", role: "alert" }, folder.problem);
  const shown = folder.entries.filter((entry) => state.showHidden || !baseName(entry.path).startsWith("."));
  return h("ul", { "aria-busy": folder.status === "listing" ? "true" : "false" },
    shown.map((entry) => item(state, context, entry, depth, source)),
    shown.length === 0 && folder.status === "listed" && emptyLine(folder, depth),
    folder.more && h("li", { key: "more", class: "hint inset" }, "There are more than are shown. Use the terminal for the rest."));
}

function emptyLine(folder: TreeFolder, depth: number): VNode {
  return h("li", { key: "none", class: "hint", style: indent(depth) }, folder.entries.length > 0 ? "Only hidden files" : "Empty");
}

function indent(depth: number): Record<string, string> {
  return { "padding-left": `${12 + depth * 14}px` };
}

function item(state: State, context: Context, entry: FileEntry, depth: number, source: Source): VNode {
  const isFolder = entry.type === "directory";
  const open = isFolder && (state.tree[entry.path]?.open ?? false);
  const act = (): void => void (isFolder ? files.toggle(context, entry.path) : editor.open(context, entry.path));
  return h("li", { key: entry.path },
    h("div", { class: state.activePath === entry.path ? "entry current" : "entry" },
      h("button", {
        type: "button", class: "entry-name", style: indent(depth), title: describe(entry), disabled: !source && !isFolder,
        onclick: act, onkeydown: (event: KeyboardEvent) => keys(context, entry, open, source === "live", event),
        ...(isFolder ? { "aria-expanded": open ? "true" : "false" } : {}),
      },
      h("span", { class: "twist" }, isFolder && icon(open ? "open" : "shut")),
      icon(isFolder ? "folder" : entry.type === "symlink" ? "link" : "file"),
      h("span", { class: "entry-text" }, baseName(entry.path))),
      source === "live" ? tools(context, entry, isFolder) : source === "disk" && !isFolder && readingTools(context, entry)),
    open && contents(state, context, entry.path, depth + 1, source));
}

function readingTools(context: Context, entry: FileEntry): VNode {
  return h("span", { class: "entry-tools" }, downloadButton(context, entry));
}

function downloadButton(context: Context, entry: FileEntry): VNode {
  return iconButton("download", `Download ${baseName(entry.path)}`, () => void files.download(context, entry.path));
}

function tools(context: Context, entry: FileEntry, isFolder: boolean): VNode {
  const name = baseName(entry.path);
  const open = context.store.dispatch;
  return h("span", { class: "entry-tools" },
    isFolder && iconButton("newFile", `New file in ${name}`, () => ask(context, "file", entry.path)),
    !isFolder && downloadButton(context, entry),
    iconButton("pencil", `Rename ${name}`, () => open({ type: "dialog.opened", dialog: { kind: "rename", path: entry.path } })),
    iconButton("trash", `Delete ${name}`, () => open({ type: "dialog.opened", dialog: { kind: "remove", path: entry.path, type: entry.type } })));
}

function describe(entry: FileEntry): string {
  const parts = [readable(entry.path)];
  if (entry.target) parts.push(`→ ${readable(entry.target)}`);
  if (entry.type === "file") parts.push(bytes(entry.size));
  if (entry.mtime) parts.push(exactly(entry.mtime));
  return parts.join("\n");
}

function keys(context: Context, entry: FileEntry, open: boolean, mayChange: boolean, event: KeyboardEvent): void {
  const isFolder = entry.type === "directory";
  if (isFolder && ((event.key === "ArrowRight" && !open) || (event.key === "ArrowLeft" && open))) {
    void files.toggle(context, entry.path);
  } else if (event.key === "F2" && mayChange) {
    context.store.dispatch({ type: "dialog.opened", dialog: { kind: "rename", path: entry.path } });
  } else if (event.key === "Delete" && mayChange) {
    context.store.dispatch({ type: "dialog.opened", dialog: { kind: "remove", path: entry.path, type: entry.type } });
  } else return;
  event.preventDefault();
}

/** Up and down walk over what is seen, as in every file tree. */
function walk(event: KeyboardEvent): void {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  if (step === 0) return;
  const names = [...(event.currentTarget as HTMLElement).querySelectorAll<HTMLElement>(".entry-name")];
  const next = names[names.indexOf(document.activeElement as HTMLElement) + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
}
