"""The login page: one form, without scripts. It is the same for all unknown callers."""

import hashlib
from base64 import b64encode
from html import escape
from typing import Final

_STYLE: Final = (
    "body{font:16px system-ui,sans-serif;max-width:26rem;margin:15vh auto;padding:0 1rem}"
    "input,button{font:inherit;padding:.5rem;width:100%;box-sizing:border-box;margin:.25rem 0}"
)
_STYLE_HASH: Final = b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
MEDIA_TYPE: Final = "text/html; charset=utf-8"
FAILED: Final = "This did not work. The token, the link or the login is not valid, or not any more."
ANOTHER_SITE: Final = "This request came from another site. Open the login page and try again."
_TOKEN_FORM: Final = (
    '<form method="post" action="/login"><label for="token">Token</label>'
    '<input id="token" name="token" type="password" autocomplete="off" required autofocus>'
    "<button>Log in</button></form>"
)
_PROVIDER: Final = '<p><a href="/login?with=provider">Log in with your organization</a></p>'


def login_page(message: str = "", *, has_provider: bool = False) -> bytes:
    return _page(f"{_paragraph(message)}{_TOKEN_FORM}{_PROVIDER if has_provider else ''}")


def code_page(code: str) -> bytes:
    """A button instead of a redirect: programs that prefetch links must not use up the code."""
    field = f'<input type="hidden" name="code" value="{escape(code)}">'
    return _page(f'<form method="post" action="/login">{field}<button>Log in</button></form>')


def forwarding_page(address: str) -> bytes:
    """After a login elsewhere: a redirect would still count as coming from the other site, and get no cookie."""
    shown = escape(address)
    return _page(f'<p>You are logged in. <a href="{shown}">Continue</a></p>', refresh=shown)


def _paragraph(text: str) -> str:
    return f'<p role="alert">{escape(text)}</p>' if text else ""


def _page(content: str, refresh: str = "") -> bytes:
    meta = f'<meta http-equiv="refresh" content="0;url={refresh}">' if refresh else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Podium</title>'
        f"{meta}<style>{_STYLE}</style></head><body><h1>Podium</h1>{content}</body></html>"
    ).encode()
