/**
 * Every command of the page, once: its title, its keys, when it applies, what it does. The palette, the shortcuts and their
 * list are made from it. A new command is a row in the table of its area.
 */

import type { State } from "../state/types";
import type { Context } from "./context";
import { editorCommands } from "./table-editor";
import { pageCommands } from "./table-page";
import { terminalCommands } from "./table-terminal";
import { workspaceCommands } from "./table-workspace";

export interface Command {
  id: string;
  /** What it does, as a verb; it may say of what. */
  title: string;
  group: "Go" | "Files" | "Editor" | "Terminal" | "Workspace" | "Page";
  keys?: string[];
  /** Those of its keys that a terminal leaves to the page. All others are the program's while it has the focus. */
  inTerminal?: string[];
  /** Where its keys work, when not on the whole page; the view there handles them, and the palette does not have it. */
  where?: string;
  applies: (state: State) => boolean;
  run: (context: Context) => void;
}

export function allCommands(state: State): Command[] {
  return [...pageCommands(state), ...editorCommands, ...terminalCommands, ...workspaceCommands];
}

/** What may be done now. */
export function commandsNow(state: State): Command[] {
  return allCommands(state).filter((one) => !one.where && one.applies(state));
}
