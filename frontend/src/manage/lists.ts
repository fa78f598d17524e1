/** What the admins' lists share: the pages of one, and what stands there while it has nothing. Called by people.ts and audit.ts. */

import type { Context } from "../commands/context";
import type { Paged } from "../state/manage";
import { h, type Child } from "../views/dom";
import { button } from "../views/parts";
import * as commands from "./commands";

const pageSize = 50;

export function pager(context: Context, which: "people" | "audit", list: Paged<unknown>): Child {
  const count = list.rows?.length ?? 0;
  if (!list.next && list.cursors.length === 1) return null;
  const first = (list.cursors.length - 1) * pageSize;
  return h("nav", { class: "pager", "aria-label": "Pages of the list", key: "pager" },
    h("span", { class: "muted", role: "status" }, count > 0 ? `${first + 1}–${first + count}` : ""),
    button("Back", () => void commands.turnPage(context, which, "back"), { class: "small", disabled: list.cursors.length === 1 }),
    button("Next", () => void commands.turnPage(context, which, "next"), { class: "small", disabled: !list.next }));
}

export function nothing(context: Context, which: "people" | "audit", words: string): Child {
  return h("div", { class: "nothing", role: "status", key: "nothing" }, h("p", null, words),
    button("Show all", () => { document.querySelector<HTMLFormElement>("form.filters")?.reset(); void commands.look(context, which, {}); }, { class: "small" }));
}
