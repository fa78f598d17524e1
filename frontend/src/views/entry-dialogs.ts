/** The dialogs about files and folders: new, move, delete, and what to do where a name is taken. Called by dialogs.ts. */

import type { Context } from "../commands/context";
import { decide, type Answer } from "../commands/exists";
import * as files from "../commands/files";
import * as moving from "../commands/moving";
import { isFolderAt } from "../state/chosen";
import { under } from "../state/file-tree";
import type { Dialog, State } from "../state/types";
import { baseName, parentOf, readable } from "../state/words";
import type { Shown } from "./dialogs";
import { h, type Child, type VNode } from "./dom";
import { field, withInitial } from "./parts";

type EntryDialog = Extract<Dialog, { kind: "new-entry" | "move" | "remove" | "exists" }>;

export function describeEntry(state: State, context: Context, dialog: EntryDialog): Shown {
  switch (dialog.kind) {
    case "new-entry":
      return {
        title: `New ${dialog.type === "file" ? "file" : "folder"} in ${readable(dialog.parent)}`, verb: "Create", body: [line("Name", "")],
        act: (values) => void files.makeEntry(context, dialog.type, dialog.parent, values["entry"] ?? ""),
      };
    case "move":
      return {
        title: `Move ${what(dialog.paths)}`, verb: "Move",
        body: [dialog.paths.length > 1 && listed(dialog.paths), line(dialog.paths.length > 1 ? "To this folder" : "To this folder, or to this path", parentOf(dialog.paths[0] ?? "/")), folders(state)],
        act: (values) => void moving.moveTo(context, dialog.paths, values["entry"] ?? ""),
      };
    case "remove": return removal(state, context, dialog.paths);
    case "exists": return taken(context, dialog);
  }
}

function what(paths: string[]): string {
  return paths.length === 1 ? baseName(paths[0]!) : `${paths.length} entries`;
}

const named = 8;

function listed(paths: string[]): VNode {
  return h("ul", { class: "entries-meant breakable" }, paths.slice(0, named).map((path) => h("li", { key: path }, h("code", null, readable(path)))),
    paths.length > named && h("li", { key: "more" }, `and ${paths.length - named} more`));
}

function line(label: string, value: string): VNode {
  return field(label, "", h("input", {
    id: "entry", name: "entry", autofocus: true, autocomplete: "off", spellcheck: "false", list: "entry-folders",
    mount: (element) => { withInitial(value)(element); (element as HTMLInputElement).select(); },
  }));
}

/** Those that the tree knows: the browser offers them while one types. */
function folders(state: State): VNode {
  const known = Object.values(state.tree).flatMap((folder) => folder.entries).filter((entry) => entry.type === "directory");
  return h("datalist", { id: "entry-folders" }, known.slice(0, 200).map((entry) => h("option", { key: entry.path, value: entry.path })));
}

function removal(state: State, context: Context, paths: string[]): Shown {
  const unsaved = state.tabs.filter((tab) => tab.dirty && paths.some((path) => under(tab.path, path))).map((tab) => baseName(tab.path));
  return {
    title: `Delete ${what(paths)}?`, verb: paths.length > 1 ? `Delete ${paths.length} entries` : "Delete", danger: true,
    body: [
      listed(paths),
      h("p", { role: "status" }, `${whatGoes(state, paths)} This cannot be undone here; a checkpoint has what was there when it was made.`),
      unsaved.length > 0 && h("p", { class: "problem" }, `Open and not saved: ${unsaved.join(", ")}.`),
    ],
    act: () => void moving.removeAll(context, paths),
  };
}

/** What lies in folders is counted while one reads. */
function whatGoes(state: State, paths: string[]): string {
  const { going } = state.explorer;
  const folders = paths.filter((path) => isFolderAt(state, path)).length;
  const [they, are] = paths.length > 1 ? [`All ${paths.length}`, "are"] : [folders ? "The folder" : "The file", "is"];
  if (folders === 0) return `${they} ${are} removed from the disk.`;
  const inside = `everything in ${folders === 1 ? (paths.length > 1 ? "the folder" : "it") : "the folders"}`;
  if (!going) return `${they} and ${inside} are removed from the disk.`;
  const count = (number: number, word: string): string => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
  if (going.files + going.folders === 0) return folders === 1 && paths.length === 1 ? "The folder is empty. It is removed from the disk." : `${they} are removed from the disk. There is nothing in the ${folders === 1 ? "folder" : "folders"}.`;
  const parts = [going.files > 0 && count(going.files, "file"), going.folders > 0 && count(going.folders, "folder")].filter(Boolean).join(" and ");
  return `${they} and ${inside}, ${going.more ? "more than " : ""}${parts}, are removed from the disk.`;
}

function taken(context: Context, { name, folder, more, copies }: Extract<Dialog, { kind: "exists" }>): Shown {
  const all = (form: HTMLFormElement | null): boolean => form !== null && new FormData(form).has("all");
  const answers = (choice: Answer["choice"]) => (event: Event): void =>
    decide(context, { choice, all: all((event.currentTarget as HTMLElement).closest("form")) });
  const choice = (label: string, what: Answer["choice"]): Child =>
    h("button", { type: "button", class: "button", key: what, onclick: answers(what) }, label);
  return {
    title: `${readable(name)} is already there`, verb: "Keep both", dismiss: copies ? "Cancel the rest" : "Cancel",
    body: [
      h("p", { class: "breakable" }, `In ${readable(folder)} something has this name. Keeping both gives the new one a number.`),
      more && h("label", { class: "check", key: "all" }, h("input", { type: "checkbox", name: "all" }), "The same for all others that are taken"),
      h("div", { class: "banner-actions", key: "choices" }, choice("Replace", "replace"), copies && choice("Skip", "skip")),
    ],
    act: (values) => decide(context, { choice: "both", all: "all" in values }),
  };
}
