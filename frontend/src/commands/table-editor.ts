/** The commands of the files and of the editor. Part of table.ts. */

import { fileSource } from "../state/files";
import type { EditorTab, State } from "../state/types";
import { folderAt } from "../state/file-tree";
import type { Context } from "./context";
import * as editor from "./editor";
import * as files from "./files";
import * as uploads from "./uploads";
import type { Command } from "./table";
import { onWorkspace } from "./table-page";

const changes = (state: State): boolean => onWorkspace(state) && fileSource(state) === "live";
const reads = (state: State): boolean => onWorkspace(state) && fileSource(state) !== null;
const current = (state: State): EditorTab | undefined => state.tabs.find((tab) => tab.path === state.activePath);
const hasTab = (state: State): boolean => current(state) !== undefined;
const path = (context: Context): string => context.store.get().activePath;

/** The folder where one is in the tree. */
function here(context: Context): string {
  const state = context.store.get();
  return folderAt(state, state.explorer.focus) || files.homeFolder;
}

function ask(context: Context, type: "file" | "directory"): void {
  const parent = here(context);
  context.store.dispatch({ type: "dialog.opened", dialog: { kind: "new-entry", type, parent } });
}

export const editorCommands: Command[] = [
  { id: "new-file", title: "New file", group: "Files", applies: changes, run: (context) => ask(context, "file") },
  { id: "new-folder", title: "New folder", group: "Files", applies: changes, run: (context) => ask(context, "directory") },
  { id: "upload", title: "Upload files", group: "Files", applies: changes, run: (context) => uploads.choose(context, here(context), "files") },
  { id: "upload-folder", title: "Upload a folder", group: "Files", applies: changes, run: (context) => uploads.choose(context, here(context), "folder") },
  { id: "rename", title: "Rename", group: "Files", keys: ["F2"], where: "in the tree", applies: onWorkspace, run: () => undefined },
  { id: "delete-entry", title: "Delete", group: "Files", keys: ["Delete"], where: "in the tree", applies: onWorkspace, run: () => undefined },
  { id: "cut-entry", title: "Cut, to paste into another folder", group: "Files", keys: ["Mod+X"], where: "in the tree", applies: onWorkspace, run: () => undefined },
  { id: "paste-entry", title: "Paste what was cut", group: "Files", keys: ["Mod+V"], where: "in the tree", applies: onWorkspace, run: () => undefined },
  { id: "choose-entries", title: "Choose several: the next, this one too, all", group: "Files", keys: ["Shift+ArrowDown", "Mod+Space", "Mod+A"], where: "in the tree", applies: onWorkspace, run: () => undefined },
  { id: "menu-entry", title: "What may be done", group: "Files", keys: ["Shift+F10"], where: "in the tree", applies: onWorkspace, run: () => undefined },
  { id: "hidden", title: "Show or hide hidden files", group: "Files", applies: onWorkspace, run: (context) => context.store.dispatch({ type: "hidden.toggled" }) },
  { id: "refresh", title: "Read the files again", group: "Files", applies: reads, run: (context) => void files.refresh(context) },

  { id: "save", title: "Save", group: "Editor", keys: ["Mod+S"], applies: (state) => onWorkspace(state) && current(state)?.status === "open", run: (context) => void editor.save(context, path(context)) },
  { id: "close", title: "Close the file", group: "Editor", keys: ["Alt+W"], applies: hasTab, run: (context) => editor.close(context, path(context)) },
  { id: "next", title: "Next open file", group: "Editor", keys: ["Alt+PageDown"], applies: (state) => state.tabs.length > 1, run: (context) => editor.step(context, 1) },
  { id: "previous", title: "Previous open file", group: "Editor", keys: ["Alt+PageUp"], applies: (state) => state.tabs.length > 1, run: (context) => editor.step(context, -1) },
  { id: "focus-editor", title: "Go to the editor", group: "Editor", applies: hasTab, run: (context) => void editor.open(context, path(context)) },
  { id: "compare", title: "Compare with the version in the workspace", group: "Editor", applies: (state) => Boolean(current(state)?.conflict), run: (context) => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "compare", path: path(context) } }) },
  { id: "load-theirs", title: "Load the version in the workspace", group: "Editor", applies: (state) => Boolean(current(state)?.conflict), run: (context) => void editor.reload(context, path(context)) },
  { id: "download-open", title: "Download the open file", group: "Editor", applies: hasTab, run: (context) => files.download(context, path(context)) },
  ...([["Find in the file", "Mod+F"], ["Undo", "Mod+Z"], ["Indent", "Tab"], ["Leave the text: then Tab moves on", "Escape"]] as const).map(([title, key]): Command => ({
    id: `text-${key}`, title, group: "Editor", keys: [key], where: "in the text", applies: onWorkspace, run: () => undefined,
  })),
];
