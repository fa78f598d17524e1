/**
 * The home page: the workspaces one may see, a page of them at a time, looked for on the server. Reads the State; calls
 * commands. The rows are home-table.ts's.
 */

import * as listing from "../commands/listing";
import type { Context } from "../commands/context";
import { isNarrow, placeOf, sortedBy, withoutFilters, withoutLabel, withWords } from "../state/listing";
import type { ListQuery, SortKey, State, VisibleState, Workspace } from "../state/types";
import { readable } from "../state/words";
import { dialogs } from "./dialogs";
import { h, type Child, type VNode } from "./dom";
import { frame } from "./frame";
import { emptyHome } from "./home-empty";
import { sortable, table } from "./home-table";
import { icon } from "./icons";
import { button, iconButton, withInitial } from "./parts";
import { quotaBars } from "./quota";

export function home(state: State, context: Context): VNode[] {
  const { query, ids, problem } = state.listing;
  const list = ids.map((id) => state.workspaces[id]).filter((one): one is Workspace => one !== undefined);
  const none = state.loaded && list.length === 0 && state.listing.cursors.length === 1 && !isNarrow(query);
  return [
    frame(state, context, [],
      h("main", { class: "home" },
        h("div", { class: "title-row" },
          h("h1", null, "Workspaces"),
          h("div", { class: "title-actions" }, state.page.admin && whose(context, query), state.loaded && !none && newButton(context))),
        // Nothing is drawn before it is known: while the list is on its way there is no list and no empty state either.
        state.me && state.loaded && quotaBars(state.me, "What you use of your quota"),
        state.loaded && !none && toolbar(context, query),
        problem && h("p", { class: "problem", role: "alert" }, `The list cannot be read now. ${problem}`),
        state.loaded && (none ? emptyHome(newButton(context)) : found(state, context, list)))),
    ...dialogs(state, context),
  ];
}

function newButton(context: Context): VNode {
  return button("New workspace", () => listing.openCreate(context), { class: "primary", key: "new" });
}

/** An admin sees what is theirs, or everybody's: names and states, not what is inside. */
function whose(context: Context, query: ListQuery): VNode {
  const choice = (everybody: boolean, words: string): VNode => h("button", {
    type: "button", class: "segment", "aria-pressed": String(query.everybody === everybody),
    onclick: () => void listing.ask(context, { ...query, everybody, sort: query.sort === "owner" ? "created_at" : query.sort, down: query.sort === "owner" ? true : query.down }),
  }, words);
  return h("div", { class: "segments", role: "group", "aria-label": "Whose workspaces", key: "whose" }, choice(false, "Mine"), choice(true, "Everybody’s"));
}

const stateChoices: [VisibleState | "", string][] = [
  ["", "Any state"], ["running", "Running"], ["standby", "Standby"], ["stopped", "Stopped"], ["failed", "Failed"], ["creating", "Creating"], ["deleted", "In the trash"],
];

function toolbar(context: Context, query: ListQuery): VNode {
  const now = (): ListQuery => context.store.get().listing.query;
  const chosen = (event: Event): string => (event.currentTarget as HTMLSelectElement).value;
  return h("div", { class: "toolbar", role: "search", key: "toolbar" },
    h("div", { class: "seek" }, icon("find"), searchField(context)),
    h("select", { "aria-label": "State", value: query.state, onchange: (event: Event) => void listing.ask(context, { ...now(), state: chosen(event) as VisibleState | "" }) },
      [...stateChoices, ...(stateChoices.some(([one]) => one === query.state) ? [] : [[query.state, query.state] as [VisibleState, string]])]
        .map(([value, words]) => h("option", { key: value || "any", value, selected: value === query.state }, words))),
    h("select", { "aria-label": "Sort by", class: "narrow", value: query.sort, onchange: (event: Event) => void listing.ask(context, sortedBy({ ...now(), sort: "created_at", down: true }, chosen(event) as SortKey)) },
      h("option", { key: "created_at", value: "created_at", selected: query.sort === "created_at" }, "Newest first"),
      sortable(query.everybody).map(([sort, words]) => h("option", { key: sort, value: sort, selected: sort === query.sort }, words))),
    query.labels.map(([key, value]) => h("span", { class: "chip filter", key: `label-${key}` }, `${readable(key)}=${readable(value)}`,
      iconButton("close", `No longer only ${readable(key)}=${readable(value)}`, () => void listing.ask(context, withoutLabel(now(), key))))));
}

/** What is typed is looked for once one pauses; words like `team=a` become filters by label with Enter. */
function searchField(context: Context): VNode {
  const now = (): ListQuery => context.store.get().listing.query;
  const text = (event: Event): string => (event.currentTarget as HTMLInputElement).value;
  return h("input", {
    type: "search", "aria-label": "Search", placeholder: "Name, owner, or label=value", autocomplete: "off", spellcheck: "false", maxlength: 200,
    mount: withInitial(now().search),
    oninput: (event: Event) => { const typed = text(event); if (!typed.includes("=")) listing.askSoon(context, () => ({ ...now(), search: typed })); },
    onkeydown: (event: KeyboardEvent) => {
      if (event.key !== "Enter") return;
      const query = withWords(now(), text(event));
      (event.currentTarget as HTMLInputElement).value = query.search;
      void listing.ask(context, query);
    },
  });
}

function found(state: State, context: Context, list: Workspace[]): Child[] {
  const { query, cursors, next } = state.listing;
  if (list.length === 0 && cursors.length === 1) {
    return [h("div", { class: "nothing", key: "nothing", role: "status" },
      h("p", null, query.state === "deleted" ? "The trash has nothing like this." : "No workspace is like this."),
      button("Show all", () => clear(context), { class: "small" }))];
  }
  return [
    table(state, context, list),
    (next || cursors.length > 1) && h("nav", { class: "pager", "aria-label": "Pages of the list", key: "pager" },
      h("span", { class: "muted", role: "status" }, placeOf(state)),
      button("Back", () => void listing.back(context), { class: "small", disabled: cursors.length === 1 }),
      button("Next", () => void listing.forward(context), { class: "small", disabled: !next })),
  ];
}

function clear(context: Context): void {
  const field = document.querySelector<HTMLInputElement>(".seek input");
  if (field) field.value = "";
  void listing.ask(context, withoutFilters(context.store.get().listing.query));
}
