"""Errors between a program and the server. The tree is at the top of `podium/errors.py`."""

from typing import Any, Final

from podium.errors import PodiumError

# Errors about requests. The messages of all others say all of it by themselves: commands print them on the store, too.
_ABOUT_REQUESTS: Final = frozenset(
    {
        "REQUEST_INVALID",
        "REQUEST_TOO_LARGE",
        "MEDIA_TYPE_UNSUPPORTED",
        "METHOD_NOT_ALLOWED",
        "PATH_NOT_FOUND",
    }
)


class ServerError(PodiumError):
    """The server refused a request. `code` is the code that the command line shows, too.

    `location`: where in the request, like `$.inputs.version`; `valid`: what would be right there; `request_id`: what
    the log of the server has about it; `diagnostics`: every problem of a workflow; `retry_after`: when to try again.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        status: int,
        location: str = "",
        valid: str = "",
        request_id: str = "",
        diagnostics: tuple[dict[str, Any], ...] = (),
        retry_after: float | None = None,
    ) -> None:
        is_about_request = code in _ABOUT_REQUESTS
        where = f" (at {location})" if location and is_about_request else ""
        right = f"; valid: {valid}" if valid and is_about_request else ""
        super().__init__(f"{message}{where}{right}")
        self.code = code
        self.status = status
        self.location = location
        self.valid = valid
        self.request_id = request_id
        self.diagnostics = diagnostics
        self.retry_after = retry_after


class ServerUnreachable(PodiumError):
    """No answer came: whether the request was carried out is not known, unless the connection was refused."""

    code = "SERVER_UNREACHABLE"


class InvalidAnswer(PodiumError):
    """Not an answer of a Podium server, or one that this version does not understand."""

    code = "SERVER_ANSWER_INVALID"
