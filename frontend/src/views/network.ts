/** Network: what the workspace may reach, and what it tried. Reads the State; calls commands/network. */

import type { Context } from "../commands/context";
import * as network from "../commands/network";
import { foundAttempts, policyWords, ruleFor, ruleWords, shownPolicy, whyWords, type Attempt, type Mode, type Network, type NetworkState, type Policy } from "../state/network";
import type { State, Workspace } from "../state/types";
import { bytes, readable } from "../state/words";
import { h, type Child, type VNode } from "./dom";
import { icon } from "./icons";
import { button, iconButton, when, withInitial } from "./parts";

export function networkPane(state: State, context: Context, workspace: Workspace): VNode {
  const { set, problem } = state.network;
  return h("div", { class: "network", key: "network", mount: (element) => network.watch(context, element) },
    problem && h("p", { class: "problem inset", key: "problem" }, `What it may reach cannot be read now. ${problem}`),
    set && policyForm(state.network, context, set, workspace.role === "owner" || state.page.admin),
    set && attempts(state, context, set, workspace));
}

const modes: [Mode, string, string][] = [
  ["deny-all", "Nothing", "No packet leaves the machine."],
  ["rules", "Only what rules name", "Everything else is refused, and its name is not even resolved."],
  ["allow-all", "Anything public", "Private addresses stay closed."],
];

function policyForm(state: NetworkState, context: Context, set: Network, may: boolean): VNode {
  const policy = shownPolicy(state);
  return h("form", { class: "network-policy", key: "policy", novalidate: true, "aria-label": "What it may reach", onsubmit: (event: Event) => { event.preventDefault(); void network.apply(context); } },
    !set.supported && h("p", { class: "network-note", key: "unsupported" }, icon("bell"),
      "This host lets no machine out, so this one reaches nothing, whatever is chosen here. Only “Nothing” can be set."),
    h("fieldset", { class: "choices tight", disabled: !may || state.busy },
      h("legend", null, "It may reach"),
      modes.map(([mode, label, hint]) => h("label", { class: "check", key: mode },
        h("input", { type: "radio", name: "mode", value: mode, checked: policy.mode === mode, disabled: !set.supported && mode !== "deny-all" && policy.mode !== mode, onchange: () => network.chooseMode(context, mode) }),
        h("span", null, label, h("span", { class: "hint" }, ` · ${hint}`))))),
    state.wrong["mode"] && h("p", { class: "problem", role: "alert", key: "mode-problem" }, state.wrong["mode"]),
    policy.mode === "rules" && rules(state, context, policy, may),
    limits(set),
    state.draft && may && h("div", { class: "network-actions", key: "actions" },
      h("button", { type: "submit", class: "button small primary", disabled: state.busy }, "Apply"),
      button("Discard", () => network.discard(context), { class: "small", disabled: state.busy }),
      h("span", { class: "hint" }, "Nothing restarts. What is not allowed any more is cut.")),
    !state.draft && !set.in_force && h("p", { class: "hint", role: "status", key: "pending" }, "Its host is being told."));
}

function rules(state: NetworkState, context: Context, policy: Policy, may: boolean): VNode {
  const wrong = state.wrong["add"] ?? state.wrong["rules"] ?? "";
  return h("div", { class: "network-rules", key: "rules" },
    policy.rules?.length
      ? h("ol", { "aria-label": "Rules" }, policy.rules.map((rule, at) => ruleRow(state, context, ruleWords(rule), at, may)))
      : h("p", { class: "hint" }, "No rule yet, so nothing can be reached."),
    may && h("div", { class: "network-add" },
      h("input", {
        type: "text", name: "rule", "aria-label": "A destination to allow", placeholder: "*.example.org or 203.0.113.0/24", autocomplete: "off", spellcheck: "false", maxlength: 400,
        "aria-invalid": wrong ? "true" : undefined, "aria-describedby": wrong ? "rule-problem" : undefined,
        onkeydown: (event: KeyboardEvent) => { if (event.key === "Enter") { event.preventDefault(); network.addRule(context, event.currentTarget as HTMLInputElement); } },
      }),
      button("Add", () => network.addRule(context, document.querySelector<HTMLInputElement>(".network-add input")!), { class: "small" })),
    wrong && h("p", { class: "problem", id: "rule-problem", role: "alert" }, wrong),
    h("label", { class: "check" },
      h("input", { type: "checkbox", checked: policy.ask ?? false, disabled: !may || state.busy, onchange: (event: Event) => network.chooseAsk(context, (event.currentTarget as HTMLInputElement).checked) }),
      h("span", null, "Ask a member about everything else", h("span", { class: "hint" }, " · the connection waits for the answer"))));
}

function ruleRow(state: NetworkState, context: Context, words: string, at: number, may: boolean): VNode {
  const wrong = Object.entries(state.wrong).filter(([field]) => field.startsWith(`rules[${at}]`)).map(([, said]) => said).join(" ");
  return h("li", { class: "network-rule", key: `${at} ${words}` },
    h("div", { class: "network-rule-line" },
      h("code", null, readable(words)),
      may && iconButton("close", `Remove ${words}`, () => network.removeRule(context, at), { disabled: state.busy })),
    wrong && h("p", { class: "problem", role: "alert" }, wrong));
}

/** What admins add to it. */
function limits(set: Network): Child {
  const { connections, bytes_per_s: rate } = set.limits;
  const said = [
    set.bound && `Admins allow at most: ${policyWords(set.bound)}.`,
    set.private_allowed.length > 0 && `Private addresses that rules may open: ${set.private_allowed.join(", ")}.`,
    set.network.mode !== "deny-all" && connections && `At most ${connections} connections at once${rate ? `, ${bytes(rate)} a second` : ""}.`,
  ].filter(Boolean) as string[];
  return said.length > 0 && h("p", { class: "hint", key: "limits" }, said.join(" "));
}

// -- what it tried ------------------------------------------------------------------------------------------------------

function attempts(state: State, context: Context, set: Network, workspace: Workspace): VNode {
  const { log, logProblem, refusedOnly, search } = state.network;
  const found = foundAttempts(state.network);
  return h("section", { class: "attempts", key: "attempts", "aria-label": "What it tried" },
    h("div", { class: "attempts-head" },
      h("h2", null, "What it tried"),
      h("label", { class: "check" },
        h("input", { type: "checkbox", checked: refusedOnly, onchange: (event: Event) => network.filter(context, (event.currentTarget as HTMLInputElement).checked) }),
        h("span", null, "Refused only"))),
    h("input", { type: "search", class: "attempts-search", "aria-label": "Search what it tried", placeholder: "Name, address, port, reason", autocomplete: "off", spellcheck: "false", mount: withInitial(search), oninput: (event: Event) => network.search(context, (event.currentTarget as HTMLInputElement).value) }),
    logProblem && h("p", { class: "problem", key: "problem" }, `The log cannot be read now. ${logProblem}`),
    found.length === 0 && !logProblem && h("p", { class: "hint", key: "none" }, emptyWords(log.length > 0, set)),
    found.length > 0 && h("ul", { class: "attempt-list", key: "list", "aria-label": "Attempts, newest first" },
      found.slice(0, 200).map((one) => attemptRow(state, context, one, set.supported && workspace.role === "owner"))));
}

function emptyWords(searched: boolean, set: Network): string {
  if (searched) return "Nothing of what it tried is like that.";
  return set.network.mode === "deny-all" ? "It has tried nothing. What it tries, and is refused, appears here." : "Nothing yet. Every connection it makes or is refused appears here when it ends.";
}

const verdicts: Record<Attempt["verdict"], [string, string]> = { allowed: ["ok", "Allowed"], refused: ["bad", "Refused"], asked: ["busy", "Asked"] };

function attemptRow(state: State, context: Context, one: Attempt, may: boolean): VNode {
  const [tone, word] = verdicts[one.verdict];
  const place = readable(one.name || one.address || "unknown");
  const rule = may ? ruleFor(one) : null;
  return h("li", { key: String(one.seq), class: "attempt", "data-verdict": one.verdict },
    h("p", { class: "attempt-line" },
      h("span", { class: `attempt-verdict tone-${tone}` }, icon(tone), word),
      h("code", { class: "attempt-place" }, `${place}${one.port ? `:${one.port}` : ""}`),
      when(one.at, state.now)),
    h("p", { class: "attempt-why hint" }, [
      whyWords(one), one.name && one.address, one.protocol !== "tcp" && one.protocol,
      one.bytes_in + one.bytes_out > 0 && `${bytes(one.bytes_in)} in, ${bytes(one.bytes_out)} out`, (one.count ?? 1) > 1 && `${one.count} times`,
    ].filter(Boolean).join(" · ")),
    rule && button("Allow this", () => void network.allow(context, one), { class: "small", disabled: state.network.busy, "aria-label": `Allow ${ruleWords(rule)}` }));
}
