"""The page a person sees where a preview cannot be shown: what is wrong and what to do. Pure; no script at all.

Made by the gateway's previews and by the app's half of the sign-in hop. A page that waits looks again by itself, at an
address (`/.berth/wait`) that neither wakes a workspace nor keeps it awake, and gives up after a while.
"""

from __future__ import annotations

import base64
import hashlib
from html import escape

from workspaces.api.errors import STATUS, Problem

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0; display: grid; place-items: center; min-height: 100vh;
  background: light-dark(#fafafa, #17181c); color: light-dark(#1d1f24, #e6e7ea); }
main { max-width: 34rem; padding: 1.5rem; }
h1 { font-size: 1.25rem; font-weight: 600; margin: 0 0 .5rem; }
p { margin: .5rem 0; }
code { font-family: ui-monospace, monospace; font-size: .875em; }
small { color: light-dark(#5c616b, #a0a5b0); }
a { color: light-dark(#0b5cad, #7cb7ff); }
progress { width: 100%; accent-color: light-dark(#0b5cad, #7cb7ff); }
"""
_DIGEST = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY = f"default-src 'none'; style-src 'sha256-{_DIGEST}'; base-uri 'none'; form-action 'none'"

#: code -> (heading, what to do)
WORDS: dict[str, tuple[str, str]] = {
    "workspace_waking": ("Waking the workspace", "This page shows your program as soon as it answers."),
    "preview_not_listening": (
        "Nothing listens on this port yet",
        "Start your program in the workspace. It may listen on 127.0.0.1, 0.0.0.0 or ::1; the Ports list of the "
        "workspace shows what listens where. This page looks again by itself."),
    "workspace_stopped": ("The workspace is not running", "Start it in Berth, then open this address again."),
    "preview_forbidden": ("This preview is not open to you",
                          "It is private, its share has ended, or it is not there. Ask whoever gave you the address."),
    "guest_reset": ("The program broke off",
                    "It took the connection and ended it without a whole answer; its own log says why. A program that "
                    "speaks HTTPS on this port cannot be shown: let it speak plain HTTP, Berth adds TLS outside."),
    "preview_timeout": ("The program does not answer", "It took the request, and then nothing came for a long time."),
    "wake_timeout": ("The workspace takes long to wake", "It is still being woken. Try again in a moment."),
}


def page(problem: Problem, *, again: str = "", every_s: int = 0, link: str = "") -> str:
    """`again` is where it looks by itself after `every_s`; `link` is what a person may follow instead."""
    heading, advice = WORDS.get(problem.code, (STATUS.get(problem.code, STATUS["internal"])[1], ""))
    refresh = f'<meta http-equiv="refresh" content="{every_s};url={escape(again, quote=True)}">' if again else ""
    parts = [f"<p>{escape(advice)}</p>" if advice else "",
             f"<p>{escape(problem.detail)}</p>" if problem.detail else "",
             '<progress aria-label="Waiting"></progress>' if again else "",
             f'<p><a href="{escape(link, quote=True)}">Try again</a></p>' if link else "",
             f"<p><small>Berth · <code>{escape(problem.code)}</code></small></p>"]
    return ('<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(heading)}</title>{refresh}<style>{STYLE}</style></head>"
            f'<body><main><h1>{escape(heading)}</h1>{"".join(parts)}</main></body></html>')
