/**
 * Starts a page: reads what the server put into it, makes the one State, draws, and connects the live feed.
 *
 * Loaded by templates/page.html; the only file that knows all pages.
 */

import "@xterm/xterm/css/xterm.css";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/home.css";
import "./styles/workspace.css";
import "./styles/terminal.css";
import "./styles/time.css";
import "./styles/approvals.css";
import "./styles/activity.css";
import "./styles/ports.css";
import "./styles/network.css";
import "./styles/header.css";
import "./styles/people.css";
import "./styles/picker.css";
import "./styles/search.css";
import "./styles/files.css";
import "./styles/editor.css";
import { useCsrf } from "./api/client";
import { useShortcuts } from "./commands/shortcuts";
import type { Context } from "./commands/context";
import { initialState } from "./state/initial";
import { createStore } from "./state/store";
import type { PageData, State } from "./state/types";
import { startAccount, startHome, startWorkspace } from "./pages";
import { account } from "./views/account";
import { savedLayout } from "./views/dividers";
import { render, type Child } from "./views/dom";
import { frame } from "./views/frame";
import { home } from "./views/home";
import { signin } from "./views/signin";
import { currentTheme } from "./views/theme";
import { workspacePage } from "./views/workspace";

const root = document.getElementById("app")!;
const page = JSON.parse(document.getElementById("page-data")!.textContent!) as PageData;
useCsrf(page.csrf);

const store = createStore(initialState(page, Date.now(), currentTheme(), savedLayout()));
const context: Context = { store };
type View = (state: State, context: Context) => Child[];
const views: Record<PageData["page"], View> = { home, workspace: workspacePage, account, signin, manage: waiting };

/** The admins' pages come when they are asked for: nobody else loads them. */
function waiting(state: State): Child[] {
  return [frame(state, context, [])];
}

async function openManage(): Promise<void> {
  const { managePage, startManage } = await import("./manage/page");
  views.manage = managePage;
  startManage(context);
}

let due = false;
function draw(): void {
  due = false;
  const state = store.get();
  const nodes: Child[] = views[page.page](state, context);
  render(root, ...nodes);
  document.title = titleOf();
}

function titleOf(): string {
  const workspace = store.get().workspaces[page.workspace];
  return workspace ? `${workspace.name} · Berth` : page.page === "signin" ? "Sign in · Berth" : page.page === "manage" ? "Admin · Berth" : "Berth";
}

store.subscribe(() => {
  if (due) return;
  due = true;
  requestAnimationFrame(draw);
});
draw();

if (page.page === "home") startHome(context);
if (page.page === "account") startAccount(context);
if (page.page === "manage") void openManage();
if (page.page === "workspace" && !page.missing) startWorkspace(context);
if (page.page !== "signin") useShortcuts(context);
// Relative times move on by themselves; nothing else does.
if (page.page !== "signin") setInterval(() => store.dispatch({ type: "ticked", now: Date.now() }), 15_000);
