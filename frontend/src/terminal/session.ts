/**
 * One xterm.js screen bound to one exec. Called by commands/terminals.ts (life) and views (where it stands on the page).
 *
 * The screen lives as long as its tab, also while another tab is in front: its element is moved, never rebuilt, so
 * scrollback stays. Bytes go to xterm.js untouched; it alone puts split characters together. Its size is that of its
 * place while it may be; while somebody else types, it is drawn as large as theirs, in smaller letters where need be.
 */

import { FitAddon } from "@xterm/addon-fit";
import { Terminal } from "@xterm/xterm";
import { TerminalConnection, type ConnectionHooks } from "./connection";
import { Finder, type FindHow, type Found } from "./find";
import { bytesOf, type Lease, type LeaseWord } from "./frames";
import { handlesKey } from "./keys";
import { paletteOf } from "./palette";
import { linesIn, mustAsk, pasted } from "./paste";
import { fontSize, newScreen } from "./screen";
import { withStyleNonce } from "./styles";

export interface SessionHooks extends Pick<ConnectionHooks, "status" | "lease" | "mayConnect"> {
  title: (title: string) => void;
  /** `shown`: its text is the address itself. */
  link: (url: string, event: MouseEvent, shown: boolean) => void;
  /** May a keystroke be sent now? Answers false when somebody else holds the keyboard. */
  mayType: () => boolean;
  /** A viewer's page never decides how large a terminal is. */
  mayResize: () => boolean;
  focused: () => void;
  rang: () => void;
  search: () => void;
  found: (found: Found) => void;
  /** A paste that would run several commands at once waits for a word. */
  askPaste: (lines: number, begins: string) => void;
}

interface Size { cols: number; rows: number }

const settleMs = 60;
const flashMs = 120;
const leastFontSize = 5;

export class TerminalSession {
  readonly element = document.createElement("div");
  private readonly screen: Terminal;
  private readonly fit = new FitAddon();
  private readonly connection: TerminalConnection;
  private readonly finder: Finder;
  private readonly watcher = new ResizeObserver(() => this.settle());
  private timer: ReturnType<typeof setTimeout> | undefined;
  private opened = false;
  private heldPaste = "";
  private mine = false;
  /** The size of who types, when it is not this page; null: the size of its own place. */
  private theirs: Size | null = null;

  constructor(path: string, private readonly nonce: string, private readonly hooks: SessionHooks) {
    this.element.className = "screen";
    this.screen = newScreen(hooks.link);
    this.screen.loadAddon(this.fit);
    this.finder = new Finder(this.screen, hooks.found);
    this.connection = new TerminalConnection(path, {
      output: (data, drawn) => this.screen.write(data, drawn),
      gap: (missing, reset) => this.gap(missing, reset),
      status: hooks.status, mayConnect: hooks.mayConnect,
      lease: (lease) => this.leased(lease),
    });
    this.listen();
  }

  private listen(): void {
    this.screen.onData((text) => this.typed(new TextEncoder().encode(text)));
    this.screen.onBinary((binary) => this.typed(bytesOf(binary)));
    this.screen.onTitleChange(this.hooks.title);
    this.screen.onBell(() => this.ring());
    this.element.addEventListener("focusin", () => this.hooks.focused());
    this.element.addEventListener("paste", (event) => this.paste(event), { capture: true });
  }

  /** Stands in `parent` from now on. xterm.js measures, so it opens only where it can be seen. */
  showIn(parent: HTMLElement): void {
    parent.replaceChildren(this.element);
    this.watcher.disconnect();
    this.watcher.observe(parent);
    this.refit();
  }

  focus(): void {
    this.screen.focus();
  }

  repaint(): void {
    this.screen.options.theme = paletteOf();
  }

  say(word: LeaseWord): void {
    this.connection.say(word);
  }

  find(text: string, forward: boolean, how: FindHow, typing: boolean): void {
    void this.finder.find(text, forward, how, typing);
  }

  endFind(): void {
    this.finder.clear();
    this.focus();
  }

  reconnect(): void {
    this.connection.reconnect();
  }

  close(): void {
    clearTimeout(this.timer);
    this.watcher.disconnect();
    this.connection.close();
    this.screen.dispose();
    this.element.remove();
  }

  // -- what is typed and pasted

  /** xterm.js answers programs' questions as if they were typed: a page that nobody is at must not take the keyboard so. */
  private typed(data: Uint8Array): void {
    const byHand = document.hasFocus() && this.element.contains(document.activeElement);
    if (this.mine || byHand) this.entered(data);
  }

  private entered(data: Uint8Array): void {
    if (this.hooks.mayType()) this.connection.input(data);
  }

  private paste(event: ClipboardEvent): void {
    const text = event.clipboardData?.getData("text/plain") ?? "";
    event.preventDefault();
    event.stopImmediatePropagation();
    if (!text) return;
    if (!mustAsk(text, this.screen.modes.bracketedPasteMode)) return this.send(text);
    this.heldPaste = text;
    this.hooks.askPaste(linesIn(text), text.slice(0, 400));
  }

  /** The word came. */
  pasteHeld(): void {
    const text = this.heldPaste;
    this.heldPaste = "";
    this.send(text);
  }

  private send(text: string): void {
    this.screen.scrollToBottom();
    this.entered(new TextEncoder().encode(pasted(text, this.screen.modes.bracketedPasteMode)));
  }

  // -- how large it is

  private leased(lease: Lease): void {
    this.hooks.lease(lease);
    const others = Boolean(lease.holder) && !lease.you;
    const theirs = (others || !this.hooks.mayResize()) && lease.size ? lease.size : null;
    const mineAgain = theirs === null && (this.theirs !== null || (lease.you === true && !this.mine));
    this.theirs = theirs;
    this.mine = lease.you === true;
    this.refit();
    // The size of a terminal is that of who types: with the keyboard comes the size.
    if (mineAgain) this.connection.resize(this.screen.cols, this.screen.rows);
  }

  /** A place that is being dragged settles first: each size is a redraw for the program, too. */
  private settle(): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refit(), settleMs);
  }

  private refit(): void {
    if (this.element.clientWidth === 0) return;
    if (!this.opened) this.open();
    if (this.screen.options.fontSize !== fontSize && !this.theirs) this.screen.options.fontSize = fontSize;
    if (this.theirs) return this.letterbox(this.theirs);
    const wanted = this.fit.proposeDimensions();
    if (!wanted || !(wanted.cols > 1) || !(wanted.rows > 0)) return;
    const changed = wanted.cols !== this.screen.cols || wanted.rows !== this.screen.rows;
    if (changed) this.screen.resize(wanted.cols, wanted.rows);
    if (changed || !this.connection.knowsSize) this.connection.resize(wanted.cols, wanted.rows);
  }

  private letterbox(size: Size): void {
    this.screen.options.fontSize = fontSize;
    const own = this.fit.proposeDimensions();
    if (own) {
      const ratio = Math.min(1, own.cols / size.cols, own.rows / size.rows);
      this.screen.options.fontSize = Math.max(leastFontSize, Math.floor(fontSize * ratio * 2) / 2);
    }
    if (size.cols !== this.screen.cols || size.rows !== this.screen.rows) this.screen.resize(size.cols, size.rows);
  }

  private open(): void {
    this.opened = true;
    this.screen.options.theme = paletteOf();
    withStyleNonce(this.nonce, () => this.screen.open(this.element));
    this.screen.attachCustomKeyEventHandler((event) => handlesKey(this.screen, event, this.hooks.search));
  }

  private ring(): void {
    this.hooks.rang();
    this.element.classList.add("rang");
    setTimeout(() => this.element.classList.remove("rang"), flashMs);
  }

  private gap(missing: number, reset: boolean): void {
    if (reset) this.screen.reset();
    if (missing > 0) this.screen.write(`\r\n\x1b[2m[${missing} bytes of output are no longer kept]\x1b[0m\r\n`);
  }
}
