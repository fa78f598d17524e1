/** What stands around every signed-in page: the top bar, the notices, the word when the live connection is lost. */

import { signOut } from "../api/workspaces";
import type { Context } from "../commands/context";
import { openPicker } from "../commands/picker";
import { mac } from "../commands/shortcuts";
import { chordWords } from "../state/chords";
import type { State, Theme } from "../state/types";
import { h, type Child, type VNode } from "./dom";
import { mark } from "./icons";
import { button, iconButton } from "./parts";
import { pickerDialog } from "./picker";
import { chooseTheme } from "./theme";

export function frame(state: State, context: Context, crumb: Child[], ...content: Child[]): VNode {
  return h("div", { class: "page", key: "page" },
    h("header", { class: "topbar" },
      h("div", { class: "crumbs" }, h("a", { class: "brand", href: "/" }, mark(), "Berth"), crumb),
      h("div", { class: "account" },
        iconButton("keyboard", `All commands (${chordWords("Mod+K", mac)})`, () => openPicker(context, "commands")),
        themeButton(state, context),
        state.page.admin && h("a", { class: "admin-link", href: "/manage/hosts", "aria-current": state.page.page === "manage" ? "true" : undefined }, "Admin"),
        h("a", { class: "who", href: "/account", title: "Your tokens" }, state.page.user),
        button("Sign out", () => void leave(), { class: "quiet" }))),
    state.connection === "waiting" &&
      h("p", { class: "offline", role: "status" }, "The live connection is lost. What you see may be old; reconnecting."),
    ...content,
    notices(state, context),
    pickerDialog(state, context));
}

const nextTheme: Record<Theme, Theme> = { system: "light", light: "dark", dark: "system" };
const themeIcon: Record<Theme, string> = { system: "half", light: "sun", dark: "moon" };

function themeButton(state: State, context: Context): VNode {
  const label = `Colours: ${state.theme === "system" ? "as the system" : state.theme}. Change to ${nextTheme[state.theme]}`;
  return iconButton(themeIcon[state.theme], label, () => chooseTheme(context, nextTheme[state.theme]));
}

async function leave(): Promise<void> {
  await signOut().catch(() => undefined);
  location.assign("/sign-in");
}

function notices(state: State, context: Context): VNode {
  return h("div", { class: "notices", "aria-live": "polite", key: "notices" },
    state.notices.map((notice) =>
      h("div", { class: `notice ${notice.tone}`, key: String(notice.id), role: notice.tone === "error" ? "alert" : "status" },
        h("p", null, notice.text),
        iconButton("close", "Dismiss", () => context.store.dispatch({ type: "notice.dismissed", id: notice.id })))));
}
