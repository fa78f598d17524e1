/**
 * Opening, finding again and closing terminals. Called by views and by the workspace page; owns the terminal sessions.
 *
 * A terminal is an exec with a tty: a page that is loaded again finds the shells that run and shows them with their
 * scrollback, and so does a second browser. Those that somebody else started are in a list until they are joined.
 */

import { killExec, listExecs, recordExec, startShell } from "../api/execs";
import { leavesOf } from "../state/panes";
import { isMine } from "../state/terminals";
import type { Exec, TerminalTab } from "../state/types";
import { isLeftAlone } from "../state/words";
import { guestPort, previewOf } from "../terminal/links";
import type { Lease, LeaseWord } from "../terminal/frames";
import { measure } from "../terminal/screen";
import { TerminalSession } from "../terminal/session";
import { raise, raiseProblem, type Context } from "./context";
import { recall, remember } from "./terminal-memory";

const sessions = new Map<string, TerminalSession>();
const endedShown = 8;
/** A question for the keyboard that nobody answers so long is as good as a yes; the server holds to the same. */
const answerMs = 30_500;

/** Where terminals stand on the page; known once the panel is drawn. */
let panel: HTMLElement | null = null;
let detached: string[] = [];
let keeping = false;

export function usePanel(element: HTMLElement | null): void {
  panel = element;
}

export function terminalOf(id: string): TerminalSession | undefined {
  return sessions.get(id);
}

// -- finding them again

export async function find(context: Context): Promise<void> {
  const { store } = context;
  const { user, workspace } = store.get().page;
  try {
    const living = (await listExecs(workspace, "running")).filter((exec) => exec.tty).reverse();
    const memory = keeping ? null : recall(workspace);
    if (memory) detached = memory.detached;
    const placed = new Set(memory?.groups.flatMap((group) => leavesOf(group.tree)));
    const here = living.filter((exec) => belongsHere(exec, user, placed));
    for (const exec of here) connect(context, exec.id);
    store.dispatch({ type: "terminals.known", execs: here, groups: memory?.groups ?? [], names: memory?.names ?? {} });
    if (memory && sessions.has(memory.active)) store.dispatch({ type: "terminal.chosen", id: memory.active });
    store.dispatch({ type: "terminals.listed", others: living.filter((exec) => !sessions.has(exec.id)).reverse() });
    for (const exec of here) followOn(context, exec);
    keep(context);
  } catch (cause) {
    raiseProblem(context, cause);
  }
}

function belongsHere(exec: Exec, user: string, placed: Set<string>): boolean {
  if (sessions.has(exec.id) || placed.has(exec.id)) return true;
  if (exec.continued_from && sessions.has(exec.continued_from)) return true;
  return isMine(exec, user) && !detached.includes(exec.id);
}

/** A shell that a restore brought back is another exec; the tab of what it was before says nothing more. */
function followOn(context: Context, exec: Exec): void {
  const former = exec.continued_from;
  if (!former || !sessions.has(former)) return;
  if (context.store.get().activeTerminal === former) context.store.dispatch({ type: "terminal.activated", id: exec.id });
  discard(context, former);
}

/** From the first look on, this browser remembers what stands where. */
function keep(context: Context): void {
  if (keeping) return;
  keeping = true;
  let before = context.store.get();
  remember(before, detached);
  context.store.subscribe(() => {
    const state = context.store.get();
    if (state.terminalGroups !== before.terminalGroups || state.terminals !== before.terminals) remember(state, detached);
    before = state;
  });
}

/** What others have open, and what ended lately: both can be looked at. */
export async function listOthers(context: Context): Promise<void> {
  const { workspace } = context.store.get().page;
  try {
    const [running, ended] = await Promise.all([listExecs(workspace, "running"), listExecs(workspace, "ended")]);
    const others = [...running, ...ended.filter((exec) => exec.tty).slice(0, endedShown)];
    context.store.dispatch({ type: "terminals.listed", others: others.filter((exec) => exec.tty && !sessions.has(exec.id)) });
  } catch (cause) {
    raiseProblem(context, cause);
  }
}

export function join(context: Context, exec: Exec): void {
  detached = detached.filter((id) => id !== exec.id);
  opened(context, exec);
  const others = context.store.get().otherTerminals.filter((other) => other.id !== exec.id);
  context.store.dispatch({ type: "terminals.listed", others });
}

// -- opening

export interface Beside { beside: string; way: "row" | "column" }

/** `plain` is the way in where a broken profile keeps every other shell from beginning. */
export async function openShell(context: Context, where?: Beside, plain = false): Promise<void> {
  const { store } = context;
  if (store.get().opening) return;
  store.dispatch({ type: "terminal.opening" });
  const { nonce, workspace } = store.get().page;
  const place = (where && sessions.get(where.beside)?.element.parentElement) ?? panel;
  const size = place ? measure(place, nonce) : { cols: 80, rows: 24 };
  if (where?.way === "row") size.cols = Math.max(2, Math.floor(size.cols / 2) - 1);
  if (where?.way === "column") size.rows = Math.max(2, Math.floor(size.rows / 2) - 1);
  try {
    opened(context, await startShell(workspace, size.cols, size.rows, plain), where);
  } catch (cause) {
    store.dispatch({ type: "terminal.refused" });
    raiseProblem(context, cause);
  }
}

function opened(context: Context, exec: Exec, where?: Beside): void {
  connect(context, exec.id);
  context.store.dispatch({ type: "terminal.opened", exec, ...where });
  requestAnimationFrame(() => sessions.get(exec.id)?.focus());
}

function connect(context: Context, id: string): void {
  if (sessions.has(id)) return;
  const { store } = context;
  const { workspace, nonce } = store.get().page;
  sessions.set(id, new TerminalSession(`/ws/v1/workspaces/${workspace}/terminals/${id}`, nonce, {
    status: (status, outcome) => store.dispatch({ type: "terminal.status", id, status, outcome }),
    lease: (lease) => leased(context, id, lease),
    title: (title) => store.dispatch({ type: "terminal.titled", id, title: title.slice(0, 80) }),
    link: (url, event, shown) => follow(context, url, event, shown),
    mayType: () => mayType(context, id),
    mayResize: () => store.get().workspaces[workspace]?.role !== "viewer",
    mayConnect: () => !isLeftAlone(store.get().workspaces[workspace]?.state),
    focused: () => { if (store.get().activeTerminal !== id) store.dispatch({ type: "terminal.activated", id }); },
    rang: () => store.dispatch({ type: "terminal.rang", id }),
    search: () => store.dispatch({ type: "terminal.sought", id }),
    found: (found) => store.dispatch({ type: "terminal.found", ...found }),
    askPaste: (lines, begins) => store.dispatch({ type: "dialog.opened", dialog: { kind: "paste", id, lines, begins } }),
  }));
}

function tabOf(context: Context, id: string): TerminalTab | undefined {
  return context.store.get().terminals.find((tab) => tab.id === id);
}

/** With Ctrl or Cmd an address that one can read is followed at once; else it is shown first, whole. */
function follow(context: Context, url: string, event: MouseEvent, shown: boolean): void {
  const { page, workspaces } = context.store.get();
  const preview = previewOf(url, workspaces[page.workspace]?.preview_url_template);
  const direct = shown && (event.ctrlKey || event.metaKey) && (guestPort(url) === null || preview);
  if (direct) window.open(preview ?? url, "_blank", "noopener,noreferrer");
  else context.store.dispatch({ type: "dialog.opened", dialog: { kind: "open-link", url } });
}

// -- the keyboard

function leased(context: Context, id: string, lease: Lease): void {
  const before = tabOf(context, id);
  context.store.dispatch({ type: "terminal.lease", id, lease: {
    holder: lease.holder ?? "", mine: lease.you ?? false, mayTake: lease.may_take ?? false, asked: lease.asked ?? false,
    declinedBy: lease.declined_by ?? "", asks: lease.asks ?? [], present: lease.present ?? [],
    recordedBy: lease.recording?.by ?? "", recorded: Boolean(lease.recording) || (before?.recorded ?? false),
  } });
  if (lease.asked && !before?.asked) setTimeout(() => unanswered(context, id), answerMs);
}

function unanswered(context: Context, id: string): void {
  if (tabOf(context, id)?.asked) context.store.dispatch({ type: "terminal.lease", id, lease: { mayTake: true } });
}

/** One's own other page gives the keyboard up without asking; who watches another's terminal takes it by a button. */
function mayType(context: Context, id: string): boolean {
  const { page } = context.store.get();
  const tab = tabOf(context, id);
  if (!tab || tab.mine) return true;
  if (!tab.holder) return tab.starter === "";
  if (tab.holder !== page.user || !tab.mayTake) return false;
  sessions.get(id)?.say({ take: true });
  return true;
}

export function say(id: string, word: LeaseWord): void {
  sessions.get(id)?.say(word);
  sessions.get(id)?.focus();
}

// -- closing

/** An ended terminal, or one that somebody else started, is only taken off the page; one's own is asked about first. */
export function close(context: Context, id: string): void {
  const tab = tabOf(context, id);
  if (tab && tab.status !== "ended" && tab.starter === "") {
    return context.store.dispatch({ type: "dialog.opened", dialog: { kind: "close-terminal", id } });
  }
  detach(context, id);
}

/** What runs in it goes on; it is in the list until somebody joins it again. */
export function detach(context: Context, id: string): void {
  context.store.dispatch({ type: "dialog.closed" });
  if (tabOf(context, id)?.status !== "ended") detached = [...detached, id];
  discard(context, id);
  void listOthers(context);
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

// -- the rest

export async function record(context: Context, id: string, on: boolean): Promise<void> {
  try {
    const exec = await recordExec(context.store.get().page.workspace, id, on);
    context.store.dispatch({ type: "terminal.lease", id, lease: { recorded: Boolean(exec.recording) } });
    if (!on) raise(context, "info", "The recording has ended. It can be played or downloaded from the terminal's menu.");
  } catch (cause) {
    raiseProblem(context, cause);
  }
}

/** Ctrl-` goes into the terminal in front, and from within it out to its tab: Tab alone would be the program's. */
export function hop(context: Context): void {
  const { activeTerminal } = context.store.get();
  const inside = document.activeElement?.closest(".screen");
  if (inside) document.querySelector<HTMLElement>(".terminal-area .tab.current .tab-name")?.focus();
  else if (activeTerminal) sessions.get(activeTerminal)?.focus();
  else void openShell(context);
}

/** The workspace may be asked again: terminals that waited come back, or hear how they ended. */
export function reconnectAll(): void {
  for (const session of sessions.values()) session.reconnect();
}

/** The colours of the page changed. */
export function repaintAll(): void {
  for (const session of sessions.values()) session.repaint();
}
