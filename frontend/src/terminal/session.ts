/**
 * One xterm.js screen bound to one exec. Called by commands/terminals.ts (life) and views (where it stands on the page).
 *
 * The screen lives as long as its tab, also while another tab is in front: its element is moved, never rebuilt, so
 * scrollback stays. Bytes go to xterm.js untouched; it alone puts split characters together.
 */

import { FitAddon } from "@xterm/addon-fit";
import { Unicode11Addon } from "@xterm/addon-unicode11";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal } from "@xterm/xterm";
import { TerminalConnection, type ConnectionHooks } from "./connection";
import { bytesOf } from "./frames";
import { handlesKey } from "./keys";
import { paletteOf } from "./palette";
import { withStyleNonce } from "./styles";

export interface SessionHooks extends Pick<ConnectionHooks, "status" | "lease" | "mayConnect"> {
  title: (title: string) => void;
  link: (url: string) => void;
  /** May a keystroke be sent now? Answers false when somebody else holds the keyboard. */
  mayType: () => boolean;
}

export const scrollbackLines = 10_000;

export class TerminalSession {
  readonly element = document.createElement("div");
  private readonly screen: Terminal;
  private readonly fit = new FitAddon();
  private readonly connection: TerminalConnection;
  private readonly watcher = new ResizeObserver(() => this.refit());
  private opened = false;

  constructor(path: string, private readonly nonce: string, hooks: SessionHooks) {
    this.element.className = "screen";
    this.screen = newScreen(hooks);
    this.screen.loadAddon(this.fit);
    this.screen.loadAddon(new Unicode11Addon());
    this.screen.unicode.activeVersion = "11";
    this.screen.loadAddon(new WebLinksAddon((event, url) => followed(event, url, hooks)));
    this.connection = new TerminalConnection(path, {
      output: (data, drawn) => this.screen.write(data, drawn),
      gap: (missing, reset) => this.gap(missing, reset),
      status: hooks.status, lease: hooks.lease, mayConnect: hooks.mayConnect,
    });
    const typed = (data: Uint8Array): void => { if (hooks.mayType()) this.connection.input(data); };
    this.screen.onData((text) => typed(new TextEncoder().encode(text)));
    this.screen.onBinary((binary) => typed(bytesOf(binary)));
    this.screen.onResize(({ cols, rows }) => this.connection.resize(cols, rows));
    this.screen.onTitleChange(hooks.title);
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

  take(): void {
    this.connection.take();
    this.focus();
  }

  reconnect(): void {
    this.connection.reconnect();
  }

  close(): void {
    this.watcher.disconnect();
    this.connection.close();
    this.screen.dispose();
    this.element.remove();
  }

  private refit(): void {
    if (this.element.clientWidth === 0) return;
    if (!this.opened) this.open();
    const wanted = this.fit.proposeDimensions();
    if (!wanted || !(wanted.cols > 1) || !(wanted.rows > 0)) return;
    if (wanted.cols !== this.screen.cols || wanted.rows !== this.screen.rows) this.screen.resize(wanted.cols, wanted.rows);
    this.connection.resize(this.screen.cols, this.screen.rows);
  }

  private open(): void {
    this.opened = true;
    this.screen.options.theme = paletteOf();
    withStyleNonce(this.nonce, () => this.screen.open(this.element));
    this.screen.attachCustomKeyEventHandler((event) => handlesKey(this.screen, event));
  }

  private gap(missing: number, reset: boolean): void {
    if (reset) this.screen.reset();
    if (missing > 0) this.screen.write(`\r\n\x1b[2m[${missing} bytes of output are no longer kept]\x1b[0m\r\n`);
  }
}

function newScreen(hooks: SessionHooks): Terminal {
  return new Terminal({
    allowProposedApi: true, cursorBlink: false, fontSize: 13, lineHeight: 1.2, scrollback: scrollbackLines,
    fontFamily: monospace(), minimumContrastRatio: 4.5,
    // A program may write what it likes: bytes that are no sequence are its own business, not the console's.
    logLevel: "off",
    // A link of the program's own making shows where it really goes before it goes there.
    linkHandler: { activate: (event, url) => followed(event, url, hooks), allowNonHttpProtocols: false },
  });
}

function monospace(): string {
  return getComputedStyle(document.documentElement).getPropertyValue("--mono").trim() || "monospace";
}

function followed(event: MouseEvent, url: string, hooks: SessionHooks): void {
  event.preventDefault();
  if (/^https?:\/\//i.test(url)) hooks.link(url);
}

/** The size a new terminal would have in this place, before there is one: its shell starts with the right size. */
export function measure(parent: HTMLElement, nonce: string): { cols: number; rows: number } {
  const probe = document.createElement("div");
  probe.className = "screen";
  parent.append(probe);
  const screen = new Terminal({ fontSize: 13, lineHeight: 1.2, fontFamily: monospace() });
  const fit = new FitAddon();
  screen.loadAddon(fit);
  withStyleNonce(nonce, () => screen.open(probe));
  const wanted = fit.proposeDimensions();
  screen.dispose();
  probe.remove();
  const sane = (value: number | undefined, fallback: number): number =>
    value !== undefined && value > 1 && value < 2000 ? value : fallback;
  return { cols: sane(wanted?.cols, 80), rows: sane(wanted?.rows, 24) };
}
