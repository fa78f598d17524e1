/**
 * Opening, finding again and closing terminals. Called by views and by the workspace page; owns the terminal sessions.
 *
 * A terminal is an exec with a tty: a page that is loaded again finds the shells that run and shows them with their
 * scrollback, and so does a second browser.
 */

import { killExec, listExecs, startShell } from "../api/execs";
import type { Exec } from "../state/types";
import { isLeftAlone } from "../state/words";
import { measure, TerminalSession } from "../terminal/session";
import { raiseProblem, type Context } from "./context";

const sessions = new Map<string, TerminalSession>();

/** Where terminals stand on the page; known once the panel is drawn. */
let panel: HTMLElement | null = null;

export function usePanel(element: HTMLElement | null): void {
  panel = element;
}

export function terminalOf(id: string): TerminalSession | undefined {
  return sessions.get(id);
}

export async function find(context: Context): Promise<void> {
  try {
    const execs = await listExecs(context.store.get().page.workspace);
    const living = execs.filter((exec) => exec.tty && exec.state !== "ended").reverse();
    for (const exec of living) connect(context, exec.id);
    context.store.dispatch({ type: "terminals.known", execs: living });
    // A shell that a restore brought back is another exec; the tab of what it was before says nothing more.
    for (const exec of living) if (exec.continued_from && sessions.has(exec.continued_from)) discard(context, exec.continued_from);
  } catch (cause) {
    raiseProblem(context, cause);
  }
}

export async function openShell(context: Context): Promise<void> {
  const { store } = context;
  if (store.get().opening) return;
  store.dispatch({ type: "terminal.opening" });
  const { nonce, workspace } = store.get().page;
  const size = panel ? measure(panel, nonce) : { cols: 80, rows: 24 };
  try {
    opened(context, await startShell(workspace, size.cols, size.rows));
  } catch (cause) {
    store.dispatch({ type: "terminal.refused" });
    raiseProblem(context, cause);
  }
}

function opened(context: Context, exec: Exec): void {
  connect(context, exec.id);
  context.store.dispatch({ type: "terminal.opened", exec });
  requestAnimationFrame(() => sessions.get(exec.id)?.focus());
}

function connect(context: Context, id: string): void {
  if (sessions.has(id)) return;
  const { store } = context;
  const { workspace, nonce } = store.get().page;
  sessions.set(id, new TerminalSession(`/ws/v1/workspaces/${workspace}/terminals/${id}`, nonce, {
    status: (status, outcome) => store.dispatch({ type: "terminal.status", id, status, outcome }),
    lease: (holder, mine) => store.dispatch({ type: "terminal.lease", id, holder, mine }),
    title: (title) => store.dispatch({ type: "terminal.titled", id, title: title.slice(0, 80) }),
    link: (url) => store.dispatch({ type: "dialog.opened", dialog: { kind: "open-link", url } }),
    mayType: () => mayType(context, id),
    mayConnect: () => !isLeftAlone(store.get().workspaces[workspace]?.state),
  }));
}

/** One's own other page gives the keyboard up without asking; somebody else is asked with the Take button. */
function mayType(context: Context, id: string): boolean {
  const { terminals, page } = context.store.get();
  const tab = terminals.find((one) => one.id === id);
  if (!tab || tab.mine || !tab.holder) return true;
  if (tab.holder !== page.user) return false;
  sessions.get(id)?.take();
  return true;
}

export function take(id: string): void {
  sessions.get(id)?.take();
}

/** Closing an ended terminal only takes it off the page; a living one is asked about first. */
export function close(context: Context, id: string): void {
  const tab = context.store.get().terminals.find((one) => one.id === id);
  if (tab && tab.status !== "ended") {
    return context.store.dispatch({ type: "dialog.opened", dialog: { kind: "close-terminal", id } });
  }
  discard(context, id);
}

export async function endAndClose(context: Context, id: string): Promise<void> {
  context.store.dispatch({ type: "dialog.closed" });
  discard(context, id);
  try {
    await killExec(context.store.get().page.workspace, id);
  } catch (cause) {
    raiseProblem(context, cause);
  }
}

function discard(context: Context, id: string): void {
  sessions.get(id)?.close();
  sessions.delete(id);
  context.store.dispatch({ type: "terminal.closed", id });
}

/** The workspace may be asked again: terminals that waited come back, or hear how they ended. */
export function reconnectAll(): void {
  for (const session of sessions.values()) session.reconnect();
}

/** The colours of the page changed. */
export function repaintAll(): void {
  for (const session of sessions.values()) session.repaint();
}
