/**
 * The dialogs: each names what will happen, and its main button says the same verb. Reads the State; calls commands.
 *
 * Native modal dialogs: focus stays inside, Escape closes, focus returns to where it was.
 */

import type { Context } from "../commands/context";
import * as editor from "../commands/editor";
import * as workspaces from "../commands/workspaces";
import type { Dialog, State } from "../state/types";
import { baseName } from "../state/words";
import { compareDialog } from "./compare";
import { createDialog } from "./create";
import { h, type Child, type VNode } from "./dom";
import { button, valuesOf } from "./parts";
import { describeTerminal, openLink } from "./terminal-dialogs";
import { newTokenDialog, revokeTokenDialog } from "./account";
import { approvalRulesDialog, breakGlassDialog, leaveDialog, membersDialog } from "./members";
import { describeEntry } from "./entry-dialogs";
import { emulatedDialog } from "./power";
import { shareDialog } from "./ports";
import { shortcutsDialog } from "./shortcuts";
import { describeTime } from "./time-dialogs";

export function dialogs(state: State, context: Context): VNode[] {
  const { dialog } = state;
  return dialog && dialog.kind !== "manage" ? [shell(state, context, dialog, describe(state, context, dialog))] : [];
}

export interface Shown {
  title: string;
  body: Child[];
  verb: string;
  danger?: boolean;
  /** What the button beside the verb says; "Cancel" unless said, none when empty. */
  dismiss?: string;
  wide?: boolean;
  act: (values: Record<string, string>) => void;
  /** A second thing that may be done instead. */
  also?: { verb: string; act: () => void };
  /** Fields that say themselves what is wrong with them; what stands in them is kept as the draft. */
  fields?: string[];
}

/** The frame of any dialog; the admins' pages describe their own. */
export function shell(state: State, context: Context, dialog: Dialog, shown: Shown): VNode {
  const close = (): void => context.store.dispatch({ type: "dialog.closed" });
  const submit = (event: Event): void => { event.preventDefault(); shown.act(valuesOf(event.currentTarget)); };
  const watch = (event: Event): void => context.store.dispatch({ type: "draft.changed", draft: valuesOf(event.currentTarget) });
  // What is said beside its field is not said twice.
  const besides = Object.keys(state.dialogErrors).some((name) => shown.fields?.includes(name)) ? "" : state.dialogProblem;
  return h("dialog", {
    key: `dialog-${JSON.stringify(dialog)}`, class: shown.wide ? "dialog wide" : "dialog", "aria-labelledby": "dialog-title",
    mount: modal, oncancel: (event: Event) => { event.preventDefault(); close(); },
  },
  h("form", { onsubmit: submit, novalidate: true, ...(shown.fields ? { oninput: watch } : {}) },
    h("h2", { id: "dialog-title" }, shown.title),
    ...shown.body,
    besides && h("p", { class: "problem", role: "alert" }, besides),
    h("div", { class: "dialog-actions" },
      shown.also && button(shown.also.verb, shown.also.act),
      shown.dismiss !== "" && button(shown.dismiss ?? "Cancel", close),
      h("button", { type: "submit", class: shown.danger ? "button danger" : "button primary", disabled: state.dialogBusy }, shown.verb))));
}

/** Closed as a dialog is, not only taken away: then the focus goes back to where it was. */
export function modal(element: HTMLElement): () => void {
  const dialog = element as HTMLDialogElement;
  dialog.showModal();
  return () => dialog.close();
}

function describe(state: State, context: Context, dialog: Exclude<Dialog, { kind: "manage" }>): Shown {
  switch (dialog.kind) {
    case "create": return createDialog(state, context);
    case "confirm-delete": return confirmDelete(state, context, dialog.id);
    case "confirm-stop": return confirmPower(state, context, dialog.id, "stop");
    case "confirm-restart": return confirmPower(state, context, dialog.id, "restart");
    case "open-link": return openLink(state, context, dialog.url);
    case "close-terminal": case "rename-terminal": case "paste": case "play": return describeTerminal(state, context, dialog);
    case "close-file": return closeFile(context, dialog.path);
    case "members": return membersDialog(state, context);
    case "leave": return leaveDialog(state, context, dialog.user);
    case "approval-rules": return approvalRulesDialog(state, context);
    case "break-glass": return breakGlassDialog(context);
    case "new-token": return newTokenDialog(state, context);
    case "revoke-token": return revokeTokenDialog(state, context, dialog.token);
    case "shortcuts": return shortcutsDialog(state, context);
    case "emulated": return emulatedDialog(context);
    case "share": return shareDialog(state, context, dialog.port);
    case "compare": return compareDialog(context, dialog.path);
    case "new-entry": case "move": case "remove": case "exists": return describeEntry(state, context, dialog);
    default: return describeTime(state, context, dialog);
  }
}

function confirmDelete(state: State, context: Context, id: string): Shown {
  const name = state.workspaces[id]?.name ?? "this workspace";
  return {
    title: `Delete ${name}?`, verb: "Delete", danger: true,
    body: [
      h("p", null, "Its machine is stopped and everything that runs in it ends."),
      h("p", null, "The workspace and its disk go to the trash. Until the trash is emptied it can be brought back from there."),
    ],
    act: () => void workspaces.remove(context, id),
  };
}

function confirmPower(state: State, context: Context, id: string, what: "stop" | "restart"): Shown {
  const name = state.workspaces[id]?.name ?? "this workspace";
  const asleep = state.workspaces[id]?.state === "standby";
  const after = what === "stop" ? "Start it again whenever you need it." : "It starts again at once, from the same disk.";
  return {
    title: `${what === "stop" ? "Stop" : "Restart"} ${name}?`, verb: what === "stop" ? "Stop" : "Restart",
    body: [h("p", null, `${asleep ? "Its kept memory is let go, and with it what ran." : "Everything that runs in it ends, terminals included."} Files are safe. ${after}`)],
    act: () => { context.store.dispatch({ type: "dialog.closed" }); void workspaces.command(context, id, what); },
  };
}


function closeFile(context: Context, path: string): Shown {
  return {
    title: `Close ${baseName(path)} without saving?`, verb: "Close without saving", danger: true,
    body: [h("p", null, "What you changed since the last save is lost.")],
    act: () => { context.store.dispatch({ type: "dialog.closed" }); editor.discard(context, path); },
  };
}
