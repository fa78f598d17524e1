/** What is asked about a terminal: its name, its end, a paste of several lines, an address; and the player. Part of dialogs.ts. */

import { castUrl } from "../api/execs";
import type { Context } from "../commands/context";
import * as terminals from "../commands/terminals";
import type { State, TerminalDialog } from "../state/types";
import { readable } from "../state/words";
import { guestPort, previewOf } from "../terminal/links";
import type { Shown } from "./dialogs";
import { h } from "./dom";
import { field, withInitial } from "./parts";
import { playInto } from "./player";

export function describeTerminal(state: State, context: Context, dialog: TerminalDialog): Shown {
  switch (dialog.kind) {
    case "close-terminal": return closeTerminal(context, dialog.id);
    case "rename-terminal": return rename(state, context, dialog.id);
    case "paste": return paste(context, dialog);
    case "play": return play(state, context, dialog);
  }
}

function closeTerminal(context: Context, id: string): Shown {
  return {
    title: "Close this terminal?", verb: "End it", danger: true,
    body: [
      h("p", null, "End it: its shell and everything started in it end, for everyone who watches."),
      h("p", null, "Leave it running: it goes on without this page, and stays in the list of terminals."),
    ],
    also: { verb: "Leave it running", act: () => terminals.detach(context, id) },
    act: () => void terminals.endAndClose(context, id),
  };
}

function rename(state: State, context: Context, id: string): Shown {
  const tab = state.terminals.find((one) => one.id === id);
  return {
    title: "Name this terminal", verb: "Name it",
    body: [field("Name", "Only in this browser. Empty: the title that its program sets.", h("input", {
      id: "name", name: "name", maxlength: 60, autofocus: true, autocomplete: "off", "aria-describedby": "name-hint", mount: withInitial(tab?.name ?? ""),
    }))],
    act: (values) => {
      context.store.dispatch({ type: "terminal.named", id, name: values["name"] ?? "" });
      context.store.dispatch({ type: "dialog.closed" });
    },
  };
}

function paste(context: Context, dialog: Extract<TerminalDialog, { kind: "paste" }>): Shown {
  return {
    title: `Paste ${dialog.lines} lines?`, verb: "Paste",
    body: [
      h("p", null, "What runs in this terminal does not know pastes: each line is entered at once, as if it were typed."),
      h("pre", { class: "paste-sample", tabindex: "0", role: "region", "aria-label": "How it begins" }, dialog.begins.split("\n").map(readable).join("\n")),
    ],
    act: () => {
      context.store.dispatch({ type: "dialog.closed" });
      terminals.terminalOf(dialog.id)?.pasteHeld();
      // While the dialog still stands nothing behind it takes the focus.
      requestAnimationFrame(() => terminals.terminalOf(dialog.id)?.focus());
    },
  };
}

function play(state: State, context: Context, dialog: Extract<TerminalDialog, { kind: "play" }>): Shown {
  const { workspace } = state.page;
  return {
    title: dialog.source === "recording" ? `Recording of ${dialog.title}` : `What is kept of ${dialog.title}`,
    verb: "Download", dismiss: "Close", wide: true,
    body: [h("div", { class: "player", hosted: true, mount: (element) => playInto(element, context, dialog.id, dialog.source) })],
    act: () => download(castUrl(workspace, dialog.id, dialog.source), `${dialog.title}.cast`),
  };
}

function download(url: string, name: string): void {
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
}

/** An address shows where it really leads. One of the guest's own ports is no address of this browser's machine. */
export function openLink(state: State, context: Context, url: string): Shown {
  const port = guestPort(url);
  const preview = previewOf(url, state.workspaces[state.page.workspace]?.preview_url_template);
  const words = port === null ? "The text in the terminal leads here, outside Berth:"
    : `The text in the terminal leads to port ${port} of this workspace${preview ? ", seen through its preview:" : ":"}`;
  return {
    title: port === null ? "Open this address?" : "Open the preview?", verb: "Open",
    body: [h("p", null, words), h("p", { class: "mono breakable" }, readable(preview ?? url))],
    act: () => { context.store.dispatch({ type: "dialog.closed" }); window.open(preview ?? url, "_blank", "noopener,noreferrer"); },
  };
}
