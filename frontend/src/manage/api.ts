/** The admins' routes over REST. Called by manage/commands.ts; one function a call, no state. */

import { ask, askJson, idempotencyKey, pathOnly } from "../api/client";
import type { AuditEntry, Code, Going, Group, Host, Person, PolicySet, TermsSet, TermValue } from "../state/manage";
import type { Terms } from "../state/types";

const root = "/api/v1";
const once = (): Record<string, string> => ({ "Idempotency-Key": idempotencyKey() });
const named = encodeURIComponent;

export interface Page<T> { results: T[]; next: string | null }

const query = (said: Record<string, string>): string => new URLSearchParams(Object.entries(said).filter(([, value]) => value !== "")).toString();

export const listHosts = async (): Promise<Host[]> => (await askJson<Page<Host>>(`${root}/hosts`)).results;
export const changeHost = (id: string, change: Partial<Pick<Host, "schedulable" | "draining">>): Promise<Host> =>
  askJson(`${root}/hosts/${named(id)}`, { method: "PATCH", json: change });

export const listPeople = (said: Record<string, string>): Promise<Page<Person>> => askJson(`${root}/users?${query(said)}`);
export const makePerson = (name: string, is_admin: boolean): Promise<Person> =>
  askJson(`${root}/users`, { method: "POST", json: { name, is_admin }, headers: once() });
export const changePerson = (name: string, change: { active?: boolean; is_admin?: boolean }): Promise<Person> =>
  askJson(`${root}/users/${named(name)}`, { method: "PATCH", json: change });
export const makeCode = (name: string): Promise<Code> => askJson(`${root}/users/${named(name)}/code`, { method: "POST", json: {}, headers: once() });

export const listPolicies = async (): Promise<PolicySet[]> => (await askJson<Page<PolicySet>>(`${root}/policies`)).results;
export const listGroups = async (): Promise<Group[]> => (await askJson<Page<Group>>(`${root}/groups`)).results;
export interface Effective { terms: Terms; built_in: Record<string, TermValue> }
/** Of somebody; of oneself when nobody is named. */
export const readEffective = (user: string): Promise<Effective> => askJson(`${root}/policies/effective${user ? `?user=${named(user)}` : ""}`);
export const setPolicy = (scope: string, terms: TermsSet): Promise<PolicySet> =>
  askJson(`${root}/policies/${named(scope)}`, { method: "PUT", json: { terms } });
export const changePolicy = (scope: string, terms: Record<string, TermsSet[string] | null>): Promise<PolicySet> =>
  askJson(`${root}/policies/${named(scope)}`, { method: "PATCH", json: { terms } });
export async function removePolicy(scope: string): Promise<void> {
  await ask(`${root}/policies/${named(scope)}`, { method: "DELETE" });
}

export interface Forecast { results: Going[]; complete: boolean }
/** Of everybody, or of the one person whom the policy is for. */
const dryRunUrl = (days: number, scope: string): string =>
  `${root}/policies/dry-run?${query({ running: "true", days: String(days), user: scope.startsWith("user:") ? scope.slice(5) : "" })}`;
export const dryRun = (days: number, scope: string): Promise<Forecast> => askJson(dryRunUrl(days, scope));
export const dryRunOf = (days: number, scope: string, terms: TermsSet): Promise<Forecast> =>
  askJson(dryRunUrl(days, scope), { method: "POST", json: { scope, terms } });

export const listAudit = (said: Record<string, string>): Promise<Page<AuditEntry>> => askJson(`${root}/audit?${query(said)}`);
export const nextAudit = (next: string): Promise<Page<AuditEntry>> => askJson(pathOnly(next));
