/** Sign-in, and the first admin's set-up with a one-time code. The only page for people who are not signed in. */

import { setUp, signIn } from "../api/workspaces";
import { said } from "../api/client";
import type { Context } from "../commands/context";
import type { State } from "../state/types";
import { h, type VNode } from "./dom";
import { mark } from "./icons";
import { field, valuesOf } from "./parts";

export function signin(state: State, context: Context): VNode[] {
  const form = state.page.setup ? setupForm(state, context) : signinForm(state, context);
  return [h("main", { class: "signin", key: "signin" },
    h("div", { class: "signin-card" }, h("p", { class: "brand" }, mark(), "Berth"), form))];
}

function signinForm(state: State, context: Context): VNode {
  return formOf(state, context, "Sign in", "Sign in", [
    field("User name", "", h("input", { id: "username", name: "username", autocomplete: "username", required: true, autofocus: true, spellcheck: "false", autocapitalize: "none" })),
    field("Password", "", h("input", { id: "password", name: "password", type: "password", autocomplete: "current-password", required: true })),
  ], (values) => signIn(values["username"] ?? "", values["password"] ?? ""));
}

function setupForm(state: State, context: Context): VNode {
  return formOf(state, context, "Set your password", "Set password", [
    h("p", { class: "hint" }, "The code is the one that ", h("code", null, "./berth up"), " printed. It works once."),
    field("One-time code", "", h("input", { id: "code", name: "code", autocomplete: "one-time-code", required: true, spellcheck: "false", autofocus: true })),
    field("New password", "At least 10 characters.", h("input", { id: "password", name: "password", type: "password", autocomplete: "new-password", required: true, minlength: 10, "aria-describedby": "password-hint" })),
  ], (values) => setUp(values["code"] ?? "", values["password"] ?? ""));
}

function formOf(state: State, context: Context, title: string, verb: string, fields: VNode[],
                send: (values: Record<string, string>) => Promise<void>): VNode {
  const submit = (event: Event): void => { event.preventDefault(); void attempt(state, context, send, valuesOf(event.currentTarget)); };
  return h("form", { onsubmit: submit, method: "post" },
    h("h1", null, title), ...fields,
    state.dialogProblem && h("p", { class: "problem", role: "alert" }, state.dialogProblem),
    h("button", { type: "submit", class: "button primary", disabled: state.dialogBusy }, verb));
}

async function attempt(state: State, context: Context, send: (values: Record<string, string>) => Promise<void>,
                       values: Record<string, string>): Promise<void> {
  context.store.dispatch({ type: "dialog.busy" });
  try {
    await send(values);
    location.assign(state.page.next || "/");
  } catch (cause) {
    context.store.dispatch({ type: "dialog.failed", problem: said(cause) });
  }
}
