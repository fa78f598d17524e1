/** The dialogs about a file or folder: new, rename, move, delete, and what to do where a name is taken. Called by dialogs.ts. */

import type { Context } from "../commands/context";
import { decide, type Answer } from "../commands/exists";
import * as files from "../commands/files";
import * as tree from "../commands/tree";
import { under } from "../state/file-tree";
import type { Dialog, State } from "../state/types";
import { baseName, parentOf, readable } from "../state/words";
import type { Shown } from "./dialogs";
import { h, type Child, type VNode } from "./dom";
import { field, withInitial } from "./parts";

type EntryDialog = Extract<Dialog, { kind: "new-entry" | "rename" | "move" | "remove" | "exists" }>;

export function describeEntry(state: State, context: Context, dialog: EntryDialog): Shown {
  switch (dialog.kind) {
    case "new-entry":
      return {
        title: `New ${dialog.type === "file" ? "file" : "folder"} in ${readable(dialog.parent)}`, verb: "Create", body: [line("Name", "")],
        act: (values) => void files.makeEntry(context, dialog.type, dialog.parent, values["entry"] ?? ""),
      };
    case "rename":
      return {
        title: `Rename ${baseName(dialog.path)}`, verb: "Rename", body: [line("Name", baseName(dialog.path), stem(baseName(dialog.path)))],
        act: (values) => void files.rename(context, dialog.path, values["entry"] ?? ""),
      };
    case "move":
      return {
        title: `Move ${baseName(dialog.path)}`, verb: "Move", body: [line("To this folder, or to this path", parentOf(dialog.path)), folders(state)],
        act: (values) => void tree.moveTo(context, dialog.path, values["entry"] ?? ""),
      };
    case "remove": return removal(state, context, dialog.path, dialog.type);
    case "exists": return taken(context, dialog);
  }
}

/** Of a name, what comes before its kind is selected: it is what one mostly changes. */
function line(label: string, value: string, selected = value.length): VNode {
  return field(label, "", h("input", {
    id: "entry", name: "entry", autofocus: true, autocomplete: "off", spellcheck: "false", list: "entry-folders",
    mount: (element) => { withInitial(value)(element); (element as HTMLInputElement).setSelectionRange(0, selected); },
  }));
}

function stem(name: string): number {
  const dot = name.lastIndexOf(".");
  return dot > 0 ? dot : name.length;
}

/** Those that the tree knows: the browser offers them while one types. */
function folders(state: State): VNode {
  const known = Object.values(state.tree).flatMap((folder) => folder.entries).filter((entry) => entry.type === "directory");
  return h("datalist", { id: "entry-folders" }, known.slice(0, 200).map((entry) => h("option", { key: entry.path, value: entry.path })));
}

function removal(state: State, context: Context, path: string, type: string): Shown {
  const unsaved = state.tabs.filter((tab) => tab.dirty && under(tab.path, path)).map((tab) => baseName(tab.path));
  return {
    title: `Delete ${baseName(path)}?`, verb: "Delete", danger: true,
    body: [
      h("p", { class: "breakable" }, h("code", null, readable(path))),
      h("p", { role: "status" }, type === "directory" ? `${whatGoes(state, path)} This cannot be undone here; a checkpoint has what was there when it was made.`
        : "The file is removed from the disk. This cannot be undone here; a checkpoint has it as it was when it was made."),
      unsaved.length > 0 && h("p", { class: "problem" }, `Open and not saved: ${unsaved.join(", ")}.`),
    ],
    act: () => void files.removeEntry(context, path, type),
  };
}

function whatGoes(state: State, path: string): string {
  const { going } = state.explorer;
  if (going?.path !== path) return "The folder and everything in it are removed from the disk.";
  const count = (number: number, word: string): string => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
  if (going.files + going.folders === 0) return "The folder is empty. It is removed from the disk.";
  const parts = [going.files > 0 && count(going.files, "file"), going.folders > 0 && count(going.folders, "folder")].filter(Boolean).join(" and ");
  return `The folder and everything in it, ${going.more ? "more than " : ""}${parts}, are removed from the disk.`;
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
