/** Reading and replacing what a workspace may reach, and watching what it tries. Called by views and pages.ts; calls api/network. */

import * as api from "../api/network";
import { said } from "../api/client";
import { Problem } from "../api/problem";
import { policyWords, ruleFor, ruleOf, shownPolicy, withRule, type Attempt, type Mode, type NetworkState, type Policy } from "../state/network";
import { raise, type Context } from "./context";

const workspaceOf = (context: Context): string => context.store.get().page.workspace;
const networkOf = (context: Context): NetworkState => context.store.get().network;
const tell = (context: Context, change: Partial<NetworkState>): void => context.store.dispatch({ type: "network.changed", change });

export async function load(context: Context): Promise<void> {
  try {
    tell(context, { set: await api.readNetwork(workspaceOf(context)), problem: "" });
  } catch (cause) {
    tell(context, { problem: said(cause) });
  }
}

export async function loadLog(context: Context): Promise<void> {
  const { log, refusedOnly } = networkOf(context);
  try {
    const attempts = await api.readLog(workspaceOf(context), log.at(-1)?.seq ?? 0, refusedOnly);
    // What was asked for before the filter changed is no answer any more.
    if (networkOf(context).refusedOnly === refusedOnly) context.store.dispatch({ type: "attempts.read", attempts });
  } catch (cause) {
    tell(context, { logProblem: said(cause) });
  }
}

const lookEveryMs = 2000;

/** Looks now, and again while it is really in sight. Called as the pane comes onto the page; answers how to end it. */
export function watch(context: Context, pane: HTMLElement): () => void {
  let looking = false;
  const look = async (): Promise<void> => {
    if (looking || document.hidden || !pane.checkVisibility()) return;
    looking = true;
    const { set } = networkOf(context);
    await Promise.all([loadLog(context), set?.in_force === false && load(context)]);
    looking = false;
  };
  void load(context);
  void look();
  const timer = setInterval(() => void look(), lookEveryMs);
  return () => clearInterval(timer);
}

export function filter(context: Context, refusedOnly: boolean): void {
  tell(context, { refusedOnly, log: [] });
  void loadLog(context);
}

export const search = (context: Context, text: string): void => tell(context, { search: text });

// -- the policy: a draft until it is applied ----------------------------------------------------------------------------

function edit(context: Context, change: Partial<Policy>): void {
  const { set } = networkOf(context);
  const draft = { ...shownPolicy(networkOf(context)), ...change };
  const asSet = set && policyWords(draft) === policyWords(set.network);
  tell(context, { draft: asSet ? null : draft, wrong: {} });
}

/** The rules wait in the draft, so that a look at another mode loses none. */
export const chooseMode = (context: Context, mode: Mode): void => edit(context, { mode, rules: shownPolicy(networkOf(context)).rules ?? [] });
export const chooseAsk = (context: Context, ask: boolean): void => edit(context, { ask });
export const discard = (context: Context): void => tell(context, { draft: null, wrong: {} });

export function addRule(context: Context, field: HTMLInputElement): void {
  if (!field.value.trim()) return;
  try {
    edit(context, { rules: [...shownPolicy(networkOf(context)).rules ?? [], ruleOf(field.value)] });
    field.value = "";
  } catch (cause) {
    tell(context, { wrong: { add: said(cause) } });
  }
  field.focus();
}

export function removeRule(context: Context, at: number): void {
  edit(context, { rules: (shownPolicy(networkOf(context)).rules ?? []).filter((_, index) => index !== at) });
}

export async function apply(context: Context): Promise<void> {
  const { draft } = networkOf(context);
  if (draft) await put(context, draft);
}

/** From a refused row: straight away, or into what is being made just now. */
export async function allow(context: Context, attempt: Attempt): Promise<void> {
  const rule = ruleFor(attempt);
  const network = networkOf(context);
  if (!rule || !network.set) return;
  const wanted = withRule(shownPolicy(network), rule);
  if (network.draft) return tell(context, { draft: wanted, wrong: {} });
  await put(context, wanted);
}

async function put(context: Context, policy: Policy): Promise<void> {
  const { set } = networkOf(context);
  if (!set) return;
  tell(context, { busy: true, wrong: {} });
  try {
    // Only `rules` has rules; those of another mode waited in the draft alone.
    const wanted: Policy = policy.mode === "rules" ? policy : { mode: policy.mode };
    tell(context, { set: await api.setNetwork(workspaceOf(context), wanted, set.revision), draft: null });
    raise(context, "info", "It holds from now on. Nothing was restarted.");
  } catch (cause) {
    const problem = cause instanceof Problem ? cause : null;
    tell(context, { draft: policy, wrong: problem && Object.keys(problem.errors).length > 0 ? problem.errors : { mode: said(cause) } });
    if (problem?.code === "precondition_failed") await load(context);
  }
  tell(context, { busy: false });
}
