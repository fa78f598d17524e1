/** The pane of the files: what may be done at its head, and below it the tree or the search. Reads the State; calls commands. */

import type { Context } from "../commands/context";
import * as files from "../commands/files";
import * as search from "../commands/search";
import { mac } from "../commands/shortcuts";
import { openMenu } from "../commands/tree";
import { chordWords } from "../state/chords";
import { fileSource } from "../state/files";
import type { State, Workspace } from "../state/types";
import { startWord, stateWord } from "../state/words";
import { h, type VNode } from "./dom";
import { button, iconButton } from "./parts";
import { start } from "./power";
import { searchPane } from "./search-pane";
import { chosenBar, treeView } from "./tree";
import { treeMenu } from "./tree-menu";
import { uploadBar } from "./upload-bar";

export function filesPane(state: State, context: Context, workspace: Workspace): VNode {
  const source = fileSource(state);
  const home = state.home || files.homeFolder;
  const searching = state.search.shown;
  return h("section", { class: source ? "files-area" : "files-area greyed", "aria-label": "Files" },
    h("div", { class: "pane-head" },
      h("h2", { title: home }, searching ? "Search" : "Files"),
      h("div", { class: "pane-tools" },
        iconButton("find", `Search in files (${chordWords("Mod+Shift+F", mac)})`, () => (searching ? search.hide(context) : search.show(context)),
          { "aria-pressed": searching ? "true" : "false" }),
        iconButton("plus", "New, or upload", (event) => below(context, home, event), { disabled: source !== "live", "aria-haspopup": "menu" }),
        iconButton("eye", "Hidden files", () => context.store.dispatch({ type: "hidden.toggled" }), { "aria-pressed": state.showHidden ? "true" : "false" }),
        iconButton("refresh", "Refresh", () => void files.refresh(context), { disabled: !source }))),
    source === "disk" && asleepBar(state, context, workspace),
    searching ? searchPane(state, context, workspace) : treeView(state, context, source),
    !searching && chosenBar(state, context, source),
    uploadBar(state, context),
    treeMenu(state, context, source));
}

function below(context: Context, home: string, event: Event): void {
  const { left, bottom } = (event.currentTarget as HTMLElement).getBoundingClientRect();
  openMenu(context, home, { x: left, y: bottom + 4 });
}

/** Says why nothing can be changed here, and how it could be. */
function asleepBar(state: State, context: Context, workspace: Workspace): VNode {
  const word = workspace.state === "failed" ? stateWord(workspace.state) : "Asleep";
  return h("div", { class: "banner asleep", role: "status", key: "asleep" },
    h("p", null, `${word}: reading the disk.`),
    button(`${startWord(workspace.state)} to edit`, () => start(context, workspace.id),
      { class: "small", disabled: workspace.id in state.pending }));
}
