"""A client of a cloud store from a URI and options, and what its errors may say.

Invariant: an option's value leaves this module only towards obstore. Messages name options, and
quote obstore's errors with values and URL queries (which may be signed) struck out.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from lsmerge.errors import InvalidOptionError, StorageError
from lsmerge.storage.objects import check_prefix

# obstore's own classes, which exist only where it is installed.
Client: TypeAlias = Any
Upload: TypeAlias = Any

Redact = Callable[[object], str]


# obstore takes these apart from a store's own configuration, and panics on some of them inside it.
_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_content_type",
        "default_headers",
        "http1_only",
        "http2_keep_alive_interval",
        "http2_keep_alive_timeout",
        "http2_keep_alive_while_idle",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "randomize_addresses",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)


def check_uri(uri: str) -> None:
    """Refuse what could smuggle a credential into messages; the URI itself is not repeated."""
    scheme, _, rest = uri.partition("://")
    if set("@?#") & set(rest):
        raise InvalidOptionError(
            f"a {scheme}:// URI must be {scheme}://bucket/prefix, without '@', '?' or '#'; "
            "give credentials in storage_options"
        )
    bucket, _, prefix = rest.rstrip("/").partition("/")
    if not bucket:
        raise InvalidOptionError(f"{scheme}:// URI names no bucket; write {scheme}://bucket/prefix")
    check_prefix(prefix)


def connect(
    uri: str, options: Mapping[str, str], redact: Redact, retry: dict[str, int] | None
) -> Client:
    """A client of the bucket and prefix in `uri`; `retry` is obstore's, None its default."""
    try:
        from obstore.exceptions import BaseError
        from obstore.store import from_url
    except ImportError:
        raise StorageError(
            uri, "open", "needs an optional dependency: pip install lsmerge[object-store]"
        ) from None
    config = {key: options[key] for key in options if key.lower() not in _CLIENT_OPTIONS}
    client = {key.lower(): options[key] for key in options if key.lower() in _CLIENT_OPTIONS}
    # Its overloads want the option names of one scheme, which is known only now.
    open_client: Any = from_url
    try:
        return open_client(uri, config=config, client_options=client, retry_config=retry)
    except (BaseError, ValueError, TypeError) as error:
        keys = ", ".join(sorted(options)) or "none"
        raise InvalidOptionError(
            f"storage_options do not open {uri}: {redact(error)} (options given: {keys})"
        ) from None


def redactor(options: Mapping[str, str]) -> Redact:
    """What an obstore error may say: its first line, without option values and URL queries.

    Endpoint and region stay readable, as a wrong one is what the message is most often about.
    """
    hidden = sorted(
        (value for key, value in options.items() if value and not _is_plain(key, value)),
        key=len,
        reverse=True,
    )

    def redact(error: object) -> str:
        text = str(error).partition("\n")[0]
        for value in hidden:
            text = text.replace(value, "***")
        return re.sub(r"\?[^\s\"')]*", "?***", text)

    return redact


def _is_plain(key: str, value: str) -> bool:
    if key.lower().endswith(("endpoint", "region")):
        return not set("@?") & set(value)
    return key.lower() in _CLIENT_OPTIONS and len(value) < 6  # true, false, a duration
