"""HTTP to one zone, for the agent and the command line: JSON out, JSON in, and three ways to fail."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping
from typing import Any

import orjson
import requests
from requests.adapters import BaseAdapter
from urllib3.exceptions import ProtocolError, ReadTimeoutError

from zonesched.compute.timed_adapter import TimedAdapter

API_PREFIX = "/v2.1"
MAX_ANSWER_BYTES, MAX_FAULT_BYTES, PIECE_BYTES = 2**28, 2**16, 2**16


class ZoneCallError(Exception):
    """Base of errors of a call to a zone."""


class ZoneUnavailable(ZoneCallError):
    """The zone gave no usable answer: unreachable, late, or not a zone."""


class ZoneRefused(ZoneCallError):
    """The zone answered with an error: HTTP status, stable code, and the field at fault ("" if none)."""

    def __init__(self, status: int, code: str, message: str, field: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.field = field

    @property
    def may_pass(self) -> bool:
        """Tell whether the same call may succeed later: the zone is overloaded or failing."""
        return self.status == 429 or self.status >= 500

    @property
    def is_of_content(self) -> bool:
        """Tell whether the zone itself cannot take what was sent; a proxy before it gives no code."""
        return self.status == 400 and self.code != ""


class ZoneConnection:
    """Calls to one zone as one user; a `username` of "" sends no credentials.

    `timeout_s` bounds the connection, and then the whole exchange, however slowly the zone sends. Redirects
    are not followed, and neither proxies nor credentials are taken from the environment. `cacert`: the file
    of CA certificates that verify https, "" for the usual authorities. `adapter` carries calls over http in
    place of sockets.
    """

    def __init__(
        self,
        zone_url: str,
        username: str,
        password: str,
        timeout_s: float = 30.0,
        *,
        cacert: str = "",
        adapter: BaseAdapter | None = None,
    ) -> None:
        self.zone_url = zone_url.rstrip("/")
        self._timeout_s = timeout_s
        self._session = requests.Session()
        self._verify = cacert or True
        self._has_answered = False
        self._session.headers["OpenStack-API-Version"] = "compute latest"
        timed = TimedAdapter()
        self._session.mount("https://", timed)
        self._session.mount("http://", adapter or timed)
        if username:
            pair = base64.b64encode(f"{username}:{password}".encode()).decode()
            self._session.headers["Authorization"] = f"Basic {pair}"

    def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        params: Mapping[str, str | int] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Any:
        """Return the answer's JSON, None without a body. Raises ZoneUnavailable or ZoneRefused."""
        try:
            request = self._prepared(method, self.zone_url + API_PREFIX + path, params, headers)
            _set_body(request, body)
            adapter = self._session.get_adapter(str(request.url))
            reply = adapter.send(request, timeout=self._timeout_s, verify=self._verify)
            content = _content(reply)
            self._has_answered = True
        except requests.Timeout:
            raise self._late() from None
        except requests.exceptions.SSLError as error:
            reason = _reason(error)
            is_plain = reason == "WRONG_VERSION_NUMBER"
            hint = "does it serve http://?" if is_plain else "--cacert names whom to trust"
            raise ZoneUnavailable(f"{self.zone_url}: TLS failed ({reason}); {hint}") from None
        except requests.ConnectionError as error:
            if _is_late(error):
                raise self._late() from None
            hint = ": it closed the connection; does it serve https://?" if self._is_cut(error) else ""
            raise ZoneUnavailable(f"{self.zone_url} cannot be reached{hint}") from None
        except UnicodeEncodeError:
            # It is the caller's text, not the URL, that is none.
            raise
        except (requests.exceptions.MissingSchema, requests.exceptions.InvalidSchema):
            raise ZoneUnavailable(
                f"{self.zone_url} cannot be used as a zone's URL: it begins with neither http:// nor https://"
            ) from None
        except (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError):
            raise ZoneUnavailable(f"{self.zone_url} broke off its answer, or garbled it") from None
        except (requests.RequestException, ValueError) as error:
            raise ZoneUnavailable(f"{self.zone_url} cannot be used as a zone's URL: {error}") from None
        except OSError as error:
            # The file of CA certificates is not there.
            raise ZoneUnavailable(f"{self.zone_url}: {error}") from None
        return self._answer(reply, content)

    def _is_cut(self, error: requests.ConnectionError) -> bool:
        """Tell whether a first connection without TLS ended without an answer, as a zone with TLS ends it."""
        may_want_tls = self.zone_url.startswith("http:") and not self._has_answered
        return may_want_tls and any(isinstance(e, ProtocolError) for e in error.args)

    def _late(self) -> ZoneUnavailable:
        return ZoneUnavailable(f"{self.zone_url} did not answer within {self._timeout_s:g} s")

    def _prepared(
        self,
        method: str,
        url: str,
        params: Mapping[str, str | int] | None,
        headers: Mapping[str, str] | None,
    ) -> requests.PreparedRequest:
        """Prepare a request without its body; a session takes several times as long, for what is not used."""
        request = requests.PreparedRequest()
        request.prepare_method(method)
        request.prepare_url(url, params)
        request.prepare_headers({**self._session.headers, **(headers or {})})
        if "@" in url:
            request.prepare_auth(None)
        return request

    def _answer(self, reply: requests.Response, content: bytes) -> Any:
        if reply.status_code < 300:
            if not content:
                return None
            try:
                return orjson.loads(content)
            except orjson.JSONDecodeError:
                raise ZoneUnavailable(f"{self.zone_url} answered something that is not JSON") from None
        if reply.status_code < 400:
            raise ZoneUnavailable(f"{self.zone_url} answered with a redirect, which is not followed")
        raise _fault(reply, content)


def _content(reply: requests.Response) -> bytes:
    """Read the body of an answer. Raises ZoneUnavailable for one that no zone sends."""
    content = bytearray()
    for piece in reply.iter_content(PIECE_BYTES):
        content += piece
        if len(content) > MAX_ANSWER_BYTES:
            reply.close()
            raise ZoneUnavailable(f"{reply.url} answered with more than {MAX_ANSWER_BYTES} bytes")
    return bytes(content)


def _is_late(error: requests.ConnectionError) -> bool:
    """Tell whether the time was over while a request was sent or the body of its answer was read."""
    causes = [*error.args, *(cause for one in error.args for cause in getattr(one, "args", ()))]
    return any(isinstance(cause, TimeoutError | ReadTimeoutError) for cause in causes)


def _set_body(request: requests.PreparedRequest, body: Mapping[str, Any] | None) -> None:
    data = b"" if body is None else json.dumps(body, allow_nan=False).encode()
    if body is not None:
        request.body = data
        request.headers.setdefault("Content-Type", "application/json")
    if data or request.method not in ("GET", "HEAD"):
        request.headers["Content-Length"] = str(len(data))


def _reason(error: BaseException) -> str:
    """Return what OpenSSL says, which the layers above it wrap."""
    said = str(error)
    found = re.search(r"certificate verify failed: [\w -]+", said) or re.search(r"[A-Z0-9_]{8,}", said)
    return found[0].strip() if found else type(error).__name__


def _fault(reply: requests.Response, content: bytes) -> ZoneRefused:
    """Build the error from a body in OpenStack's form; from any other body only the status is used."""
    try:
        # One that is longer is no zone's, and would fill the log.
        ((_, inner),) = orjson.loads(content[:MAX_FAULT_BYTES]).items()
        code, message, field = inner["error_code"], inner["message"], inner.get("field", "")
    except (ValueError, AttributeError, KeyError, TypeError):
        code, message, field = "", reply.reason or f"status {reply.status_code}", ""
    return ZoneRefused(reply.status_code, str(code), str(message), str(field or ""))
