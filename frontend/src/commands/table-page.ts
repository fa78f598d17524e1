/** The commands that lead somewhere, and those of every page. Part of table.ts. */

import { signOut } from "../api/workspaces";
import type { Side, State, Theme } from "../state/types";
import { chooseTheme } from "../views/theme";
import { afterDraw, type Context } from "./context";
import * as files from "./files";
import { openCreate } from "./listing";
import { openPicker } from "./picker";
import * as search from "./search";
import type { Command } from "./table";

export const onWorkspace = (state: State): boolean =>
  state.page.page === "workspace" && state.page.workspace in state.workspaces;
export const always = (): boolean => true;

const go: Command[] = [
  { id: "palette", title: "All commands", group: "Go", keys: ["Mod+Shift+P", "Mod+K"], inTerminal: ["Mod+Shift+P"], applies: always, run: (context) => openPicker(context, "commands") },
  { id: "quick-open", title: "Go to file", group: "Go", keys: ["Mod+P"], applies: onWorkspace, run: (context) => openPicker(context, "files") },
  { id: "search", title: "Search in files", group: "Go", keys: ["Mod+Shift+F"], applies: onWorkspace, run: search.show },
  { id: "shortcuts", title: "Keyboard shortcuts", group: "Go", keys: ["F1", "?"], applies: always, run: (context) => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "shortcuts" } }) },
  { id: "files", title: "Show files", group: "Go", keys: ["Mod+Shift+E"], applies: onWorkspace, run: files.goToTree },
  ...(["activity", "time", "ports", "network"] as const).map((side): Command => ({
    id: side, title: `Show ${side.charAt(0).toUpperCase()}${side.slice(1)}`, group: "Go", applies: onWorkspace,
    run: (context) => showSide(context, side),
  })),
  { id: "approvals", title: "Go to what waits for approval", group: "Go", applies: (state) => onWorkspace(state) && state.approvals.length > 0, run: () => document.querySelector<HTMLElement>(".approval")?.focus() },
  { id: "approve", title: "Approve the request", group: "Go", keys: ["A"], where: "on a request", applies: onWorkspace, run: () => undefined },
  { id: "deny", title: "Deny the request", group: "Go", keys: ["D"], where: "on a request", applies: onWorkspace, run: () => undefined },
];

function showSide(context: Context, side: Side): void {
  context.store.dispatch({ type: "pane.shown", pane: side });
  afterDraw(() => document.getElementById(`side-${side}`)?.focus());
}

const theme = (theme: Theme, words: string): Command => ({
  id: `theme-${theme}`, title: `Colours: ${words}`, group: "Page", applies: (state) => state.theme !== theme, run: (context) => chooseTheme(context, theme),
});

const page: Command[] = [
  { id: "new-workspace", title: "New workspace", group: "Workspace", applies: (state) => state.page.page === "home", run: openCreate },
  { id: "new-token", title: "New token", group: "Page", applies: (state) => state.page.page === "account", run: (context) => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "new-token" } }) },
  { id: "home", title: "All workspaces", group: "Page", applies: (state) => state.page.page !== "home", run: () => location.assign("/") },
  { id: "manage", title: "Administration", group: "Page", applies: (state) => state.page.admin && state.page.page !== "manage", run: () => location.assign("/manage") },
  { id: "account", title: "Your tokens", group: "Page", applies: (state) => state.page.page !== "account", run: () => location.assign("/account") },
  ...(["hosts", "people", "policies", "audit"] as const).map((section): Command => ({
    id: `manage-${section}`, title: `Admin: ${section}`, group: "Page", applies: (state) => state.page.admin && state.page.section !== section, run: () => location.assign(`/manage/${section}`),
  })),
  theme("light", "light"), theme("dark", "dark"), theme("system", "as the system"),
  { id: "sign-out", title: "Sign out", group: "Page", applies: always, run: () => void signOut().catch(() => undefined).then(() => location.assign("/sign-in")) },
];

/** The list of workspaces is a list of places to go to. */
export function pageCommands(state: State): Command[] {
  const places = state.page.page === "workspace" ? [] : Object.values(state.workspaces).map((one): Command => ({
    id: `open-${one.id}`, title: `Open ${one.name}`, group: "Go", applies: always, run: () => location.assign(`/workspaces/${one.id}`),
  }));
  return [...go, ...places, ...page];
}
