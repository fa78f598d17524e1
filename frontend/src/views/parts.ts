/** Small pieces that several views share: buttons, the state of a workspace, times. Pure descriptions. */

import type { Workspace } from "../state/types";
import { ago, causeOf, exactly, stateTone, stateWord } from "../state/words";
import { h, type Child, type Props, type VNode } from "./dom";
import { icon } from "./icons";

export function button(label: string, onclick: () => void, props: Props = {}): VNode {
  return h("button", { type: "button", onclick, ...props, class: `button ${props.class ?? ""}`.trim() }, label);
}

/** A button that shows only a drawing: its name is read out and shown on hover. */
export function iconButton(name: string, label: string, onclick: (event: Event) => void, props: Props = {}): VNode {
  return h("button", { type: "button", onclick, "aria-label": label, title: label, ...props,
    class: `icon-button ${props.class ?? ""}`.trim() }, icon(name));
}

/** Dot, word, cause: a state never is a colour alone. */
export function stateBadge(workspace: Workspace, since: Child = null): VNode {
  const cause = causeOf(workspace);
  return h("span", { class: `state tone-${stateTone(workspace.state)}` },
    h("span", { class: "dot", "aria-hidden": "true" }),
    h("span", { class: "state-word" }, stateWord(workspace.state)),
    (cause || since) && h("span", { class: "cause" },
      h("span", { class: "separator", "aria-hidden": "true" }, "·"), cause, cause && since && ", ", since));
}

export function when(at: string | null, now: number): Child {
  if (!at) return null;
  return h("time", { datetime: at, title: exactly(at) }, ago(at, now));
}

export const emulatedWhy = "This host has no usable KVM, so the processor is emulated. Everything works, slower.";

/** `error` is what is wrong with what stands in it, or would be refused; it takes the place of the hint. */
export function field(label: string, hint: string, input: VNode, error = ""): VNode {
  const name = String(input.props["id"]);
  const marked = error ? { ...input, props: { ...input.props, "aria-invalid": "true", "aria-describedby": `${name}-problem` } } : input;
  return h("div", { class: "field" },
    h("label", { for: name }, label), marked,
    error ? h("p", { class: "problem", id: `${name}-problem`, key: "problem", role: "alert" }, error) : hint && h("p", { class: "hint", id: `${name}-hint`, key: "hint" }, hint));
}

/** A value a person may change: set once, then theirs. */
export function withInitial(value: string): (element: HTMLElement) => void {
  return (element) => { (element as HTMLInputElement).value = value; };
}

export function valuesOf(form: EventTarget | null): Record<string, string> {
  const data = new FormData(form as HTMLFormElement);
  return Object.fromEntries([...data.entries()].map(([name, value]) => [name, String(value)]));
}
