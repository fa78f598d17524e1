/** The commands of the terminals. Part of table.ts. */

import type { State, TerminalTab } from "../state/types";
import type { Context } from "./context";
import type { Command } from "./table";
import { onWorkspace } from "./table-page";
import * as terminals from "./terminals";

const active = (state: State): TerminalTab | undefined => state.terminals.find((tab) => tab.id === state.activeTerminal);
const any = (state: State): boolean => onWorkspace(state) && active(state) !== undefined;
const runs = (state: State): boolean => onWorkspace(state) && state.workspaces[state.page.workspace]!.state === "running";
const operates = (state: State): boolean => runs(state) && state.workspaces[state.page.workspace]!.role !== "viewer";
const here = (context: Context): string => context.store.get().activeTerminal;

export const terminalCommands: Command[] = [
  { id: "hop", title: "Into the terminal, and out of it", group: "Terminal", keys: ["Ctrl+`"], inTerminal: ["Ctrl+`"], applies: runs, run: terminals.hop },
  { id: "new-terminal", title: "New terminal", group: "Terminal", applies: operates, run: (context) => void terminals.openShell(context) },
  { id: "split-right", title: "Split the terminal to the right", group: "Terminal", applies: (state) => operates(state) && any(state), run: (context) => void terminals.openShell(context, { beside: here(context), way: "row" }) },
  { id: "split-below", title: "Split the terminal below", group: "Terminal", applies: (state) => operates(state) && any(state), run: (context) => void terminals.openShell(context, { beside: here(context), way: "column" }) },
  { id: "name-terminal", title: "Name the terminal", group: "Terminal", applies: any, run: (context) => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "rename-terminal", id: here(context) } }) },
  { id: "find-terminal", title: "Find in the terminal", group: "Terminal", applies: any, run: (context) => context.store.dispatch({ type: "terminal.sought", id: here(context) }) },
  { id: "close-terminal", title: "Close the terminal", group: "Terminal", applies: any, run: (context) => terminals.close(context, here(context)) },
  ...([["Find", "Ctrl+Shift+F"], ["Copy", "Ctrl+Shift+C"], ["Paste", "Ctrl+Shift+V"]] as const).map(([title, key]): Command => ({
    id: `terminal-${key}`, title, group: "Terminal", keys: [key], where: "in the terminal", applies: onWorkspace, run: () => undefined,
  })),
];
