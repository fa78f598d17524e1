/** The home page: every workspace one may see, in a list that one can scan. Reads the State; calls commands. */

import { command, rememberToOpenTerminal } from "../commands/workspaces";
import type { Context } from "../commands/context";
import type { State, Workspace } from "../state/types";
import { quotaParts } from "../state/coming";
import { bytes, canStart, isChanging, mebibytes, startWord } from "../state/words";
import { dialogs } from "./dialogs";
import { h, type Child, type VNode } from "./dom";
import { frame } from "./frame";
import { button, emulatedWhy, iconButton, stateBadge, when } from "./parts";

export function home(state: State, context: Context): VNode[] {
  const list = Object.values(state.workspaces).sort((a, b) => b.created_at.localeCompare(a.created_at));
  return [
    frame(state, context, [],
      h("main", { class: "home" },
        h("div", { class: "title-row" },
          h("h1", null, "Workspaces"),
          state.loaded && list.length > 0 && newButton(context)),
        quota(state),
        body(state, context, list))),
    ...dialogs(state, context),
  ];
}

/** Use against quota, one quiet line. A disk counts as promised, and each checkpoint by what it alone holds. */
function quota(state: State): Child {
  if (!state.me || !state.loaded) return null;
  return h("p", { class: "quota", "aria-label": "What you use of your quota", title: "Disk counts what workspaces were promised and what checkpoints hold" },
    quotaParts(state.me).map(({ text, full }) => h("span", { class: full ? "tone-busy" : "", title: full ? "Nothing more fits" : undefined }, text)));
}

/** Nothing is drawn before it is known: while the list is on its way there is no list and no empty state either. */
function body(state: State, context: Context, list: Workspace[]): Child {
  if (!state.loaded) return null;
  return list.length > 0 ? table(state, context, list) : emptyState(context);
}

function newButton(context: Context): VNode {
  return button("New workspace", () => context.store.dispatch({ type: "dialog.opened", dialog: { kind: "create" } }),
    { class: "primary" });
}

const columns = ["State", "Name", "Last activity", "Machine", "Disk"];

function table(state: State, context: Context, list: Workspace[]): VNode {
  return h("div", { class: "card" },
    h("table", { class: "workspaces" },
      h("thead", null, h("tr", null,
        columns.map((label) => h("th", { scope: "col" }, label)),
        h("th", { scope: "col" }, h("span", { class: "unseen" }, "Actions")))),
      h("tbody", null, list.map((workspace) => row(state, context, workspace)))));
}

function row(state: State, context: Context, workspace: Workspace): VNode {
  return h("tr", { key: workspace.id, "data-workspace": workspace.id },
    h("td", { class: "cell-state" }, stateBadge(workspace)),
    h("td", { class: "cell-name" },
      h("a", { href: `/workspaces/${workspace.id}` }, workspace.name),
      state.page.admin && workspace.owner !== state.page.user && h("span", { class: "owner" }, workspace.owner),
    ),
    h("td", { class: "cell-activity" }, lastActivity(workspace, state.now)),
    h("td", { class: "cell-size" }, `${workspace.cpus} CPU${workspace.cpus === 1 ? "" : "s"}, ${mebibytes(workspace.memory_mib)}`,
      workspace.accelerator === "tcg" && h("span", { class: "chip", title: emulatedWhy }, "emulated")),
    h("td", { class: "cell-disk" }, disk(workspace)),
    h("td", { class: "cell-actions" }, actions(state, context, workspace)));
}

function lastActivity(workspace: Workspace, now: number): Child[] {
  if (!workspace.last_activity_at) return [h("span", { class: "muted" }, "created "), when(workspace.created_at, now)];
  const kind = (workspace.last_activity_kind ?? "").replaceAll("_", " ");
  return [when(workspace.last_activity_at, now), kind && h("span", { class: "muted" }, ` · ${kind}`)];
}

function disk(workspace: Workspace): string {
  const used = workspace.disk_used_bytes;
  return used === null || used === undefined ? `${workspace.disk_gib} GiB` : `${bytes(used)} of ${workspace.disk_gib} GiB`;
}

function actions(state: State, context: Context, workspace: Workspace): Child[] {
  const busy = workspace.id in state.pending || workspace.state === "deleting";
  const confirm = (kind: "confirm-stop" | "confirm-delete"): void =>
    context.store.dispatch({ type: "dialog.opened", dialog: { kind, id: workspace.id } });
  return [
    canStart(workspace.state) &&
      button(startWord(workspace.state), () => start(context, workspace.id),
        { key: "start", disabled: busy, "aria-label": `${startWord(workspace.state)} ${workspace.name}` }),
    workspace.state === "running" &&
      button("Standby", () => void command(context, workspace.id, "standby"), { key: "standby", disabled: busy, class: "quiet", "aria-label": `Standby ${workspace.name}` }),
    (workspace.state === "running" || isChanging(workspace.state)) && workspace.state !== "deleting" &&
      button("Stop", () => confirm("confirm-stop"),
        { key: "stop", disabled: busy || workspace.state === "stopping", "aria-label": `Stop ${workspace.name}` }),
    iconButton("trash", `Delete ${workspace.name}`, () => confirm("confirm-delete"), { key: "delete", disabled: busy }),
  ];
}

function start(context: Context, id: string): void {
  rememberToOpenTerminal(id);
  void command(context, id, "start");
}

function emptyState(context: Context): VNode {
  return h("section", { class: "empty" },
    h("div", { class: "empty-words" },
      h("p", { class: "lead" }, "A workspace is a Linux machine of its own, with a disk that stays."),
      h("p", null, "You watch and work in it here: terminal, files, editor."),
      h("p", null, "Agents drive the same machine over REST, and you see what they do.")),
    newButton(context),
    h("div", { class: "snippet" },
      h("div", { class: "snippet-head" }, h("h2", null, "Or let an agent make one"), copyButton(snippet())),
      h("pre", { tabindex: "0", "aria-label": "Commands for an agent" }, snippet()),
      h("p", { class: "hint" }, "A token comes from ", h("code", null, "./berth token NAME"), " on the machine that runs Berth.")));
}

function snippet(): string {
  return [
    `export BERTH=${location.origin}/api/v1 TOKEN=berth_…`,
    `ID=$(curl -fsS "$BERTH/workspaces?wait=true" -H "Authorization: Bearer $TOKEN" \\`,
    `  --json '{"name": "first"}' | jq -r .id)`,
    `curl -fsS "$BERTH/workspaces/$ID/execs" -H "Authorization: Bearer $TOKEN" \\`,
    `  --json '{"command": "uname -a"}'`,
  ].join("\n");
}

function copyButton(text: string): VNode {
  const copy = (event: Event): void => {
    const target = event.currentTarget as HTMLElement;
    void navigator.clipboard.writeText(text).then(() => { target.textContent = "Copied"; });
  };
  return h("button", { type: "button", class: "button quiet", hosted: true, onclick: copy,
    mount: (element: HTMLElement) => { element.textContent = "Copy"; } });
}
