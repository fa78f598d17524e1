/** How every xterm.js screen of the page is made. Called by session.ts and player.ts. */

import { FitAddon } from "@xterm/addon-fit";
import { Unicode11Addon } from "@xterm/addon-unicode11";
import { WebLinksAddon } from "@xterm/addon-web-links";
import { Terminal } from "@xterm/xterm";
import { withStyleNonce } from "./styles";

export const scrollbackLines = 10_000;
export const fontSize = 13;

type Follow = (url: string, event: MouseEvent, shown: boolean) => void;

export function newScreen(follow: Follow): Terminal {
  const screen = new Terminal({
    allowProposedApi: true, cursorBlink: false, fontSize, lineHeight: 1.2, scrollback: scrollbackLines,
    fontFamily: monospace(), minimumContrastRatio: 4.5, rightClickSelectsWord: true, macOptionClickForcesSelection: true,
    // A program may write what it likes: bytes that are no sequence are its own business, not the console's.
    logLevel: "off",
    // A link of the program's own making shows where it really goes before it goes there.
    linkHandler: { activate: (event, url) => followed(event, url, false, follow), allowNonHttpProtocols: false },
  });
  screen.loadAddon(new Unicode11Addon());
  screen.unicode.activeVersion = "11";
  screen.loadAddon(new WebLinksAddon((event, url) => followed(event, url, true, follow)));
  return screen;
}

function monospace(): string {
  return getComputedStyle(document.documentElement).getPropertyValue("--mono").trim() || "monospace";
}

function followed(event: MouseEvent, url: string, shown: boolean, follow: Follow): void {
  event.preventDefault();
  if (/^https?:\/\//i.test(url)) follow(url, event, shown);
}

/** The size a new terminal would have in this place, before there is one: its shell starts with the right size. */
export function measure(parent: HTMLElement, nonce: string): { cols: number; rows: number } {
  const probe = document.createElement("div");
  probe.className = "screen";
  parent.append(probe);
  const screen = new Terminal({ fontSize, lineHeight: 1.2, fontFamily: monospace() });
  const fit = new FitAddon();
  screen.loadAddon(fit);
  withStyleNonce(nonce, () => screen.open(probe));
  const wanted = fit.proposeDimensions();
  screen.dispose();
  probe.remove();
  const sane = (value: number | undefined, fallback: number): number =>
    value !== undefined && value > 1 && value < 1000 ? value : fallback;
  return { cols: sane(wanted?.cols, 80), rows: sane(wanted?.rows, 24) };
}
