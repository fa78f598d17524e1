/** What stands on the home page while there is no workspace: what this is, and how a person or an agent begins. Pure. */

import { h, type VNode } from "./dom";

export function emptyHome(begin: VNode): VNode {
  return h("section", { class: "empty", key: "empty" },
    h("div", { class: "empty-words" },
      h("p", { class: "lead" }, "A workspace is a Linux machine of its own, with a disk that stays."),
      h("p", null, "You watch and work in it here: terminal, files, editor."),
      h("p", null, "Agents drive the same machine over REST or MCP, and you see what they do.")),
    begin,
    snippet("Or let an agent make one", "Commands for an agent", curl()),
    snippet("For a program that speaks MCP", "Settings for MCP", mcp()),
    h("p", { class: "hint" }, "A token comes from ", h("a", { href: "/account" }, "your account"), ", or from ", h("code", null, "./berth token NAME"), " on the machine that runs Berth."));
}

function snippet(title: string, label: string, text: string): VNode {
  return h("div", { class: "snippet" },
    h("div", { class: "snippet-head" }, h("h2", null, title), copyButton(label, text)),
    h("pre", { tabindex: "0", "aria-label": label }, text));
}

function curl(): string {
  return [
    `export BERTH=${location.origin}/api/v1 TOKEN=berth_…`,
    `ID=$(curl -fsS "$BERTH/workspaces?wait=true" -H "Authorization: Bearer $TOKEN" \\`,
    `  --json '{"name": "first"}' | jq -r .id)`,
    `curl -fsS "$BERTH/workspaces/$ID/execs" -H "Authorization: Bearer $TOKEN" \\`,
    `  --json '{"command": "uname -a"}'`,
  ].join("\n");
}

function mcp(): string {
  return JSON.stringify({ mcpServers: { berth: { type: "http", url: `${location.origin}/mcp`, headers: { Authorization: "Bearer berth_…" } } } }, null, 2);
}

function copyButton(label: string, text: string): VNode {
  const copy = (event: Event): void => {
    const target = event.currentTarget as HTMLElement;
    void navigator.clipboard.writeText(text).then(() => { target.textContent = "Copied"; });
  };
  return h("button", { type: "button", class: "button quiet", hosted: true, title: label, onclick: copy,
    mount: (element: HTMLElement) => { element.textContent = "Copy"; } });
}
