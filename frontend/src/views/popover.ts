/** A list of things to do that opens below its button: light to dismiss, Escape closes, focus returns. Called by views. */

import { h, type Child, type Props, type VNode } from "./dom";
import { icon } from "./icons";

export function popover(id: string, iconName: string, label: string, items: Child[], badge = 0, props: Props = {}): VNode[] {
  return [
    h("button", {
      type: "button", key: `${id}-button`, class: "icon-button", "aria-label": label, title: label, popovertarget: id, ...props,
    }, icon(iconName), badge > 0 && h("span", { class: "badge" }, badge)),
    h("div", { id, key: id, class: "popover", popover: "auto", role: "group", "aria-label": label, onbeforetoggle: place }, items),
  ];
}

export function item(label: string, act: () => void, props: Props = {}): VNode {
  return h("button", {
    type: "button", key: label, ...props, class: `popover-item ${props.class ?? ""}`.trim(),
    onclick: (event: Event) => { (event.currentTarget as HTMLElement).closest<HTMLElement>("[popover]")?.hidePopover(); act(); },
  }, label);
}

/** Below its button, its right edge at the button's, within the window. */
function place(event: ToggleEvent): void {
  const list = event.target as HTMLElement;
  const opener = document.querySelector(`[popovertarget="${list.id}"]`)?.getBoundingClientRect();
  if (!opener || event.newState !== "open") return;
  const below = opener.top < innerHeight / 2;
  list.style.setProperty("right", `${Math.max(8, innerWidth - opener.right)}px`);
  list.style.setProperty("top", below ? `${opener.bottom + 4}px` : "auto");
  list.style.setProperty("bottom", below ? "auto" : `${innerHeight - opener.top + 4}px`);
  list.style.setProperty("max-height", `${(below ? innerHeight - opener.bottom : opener.top) - 16}px`);
}
