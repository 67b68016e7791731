"""A small S3 on the loopback interface, for tests.

What real stores promise and common mocks do not: conditional writes are decided under one lock, so
of racing creators exactly one wins. Faults can be ordered: an answer lost after the request took
effect, a refusal before it did, or a conflict with a request that never finishes. Signatures are
not checked.
"""

import hashlib
import itertools
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

BUCKET = "bucket"
PAGE_KEYS = 3  # small, so that every listing worth the name has several pages

FaultKind = Literal["drop_response", "refuse", "conflict"]


@dataclass(frozen=True)
class Stored:
    data: bytes
    modified: float

    @property
    def etag(self) -> str:
        return f'"{hashlib.sha256(self.data).hexdigest()[:32]}"'


@dataclass
class Fault:
    kind: FaultKind
    method: str
    times: int


@dataclass
class Answer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Request:
    method: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def if_absent(self) -> bool:
        return self.headers.get("if-none-match") == "*"


class S3Server:
    """`with S3Server() as s3:` then `s3.storage_options` opens `s3://bucket/...`."""

    def __init__(self) -> None:
        self.objects: dict[str, Stored] = {}
        self.uploads: dict[str, dict[int, bytes]] = {}
        self.requests: list[Request] = []
        self._faults: list[Fault] = []
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._http.daemon_threads = True
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    def __enter__(self) -> "S3Server":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def storage_options(self) -> dict[str, str]:
        return {
            "endpoint": self.endpoint,
            "region": "us-east-1",
            "access_key_id": "test-access-key",
            "secret_access_key": "test-secret-key",
            "allow_http": "true",
        }

    def fail(self, kind: FaultKind, method: str, times: int = 1) -> None:
        """Let the next `times` requests with this method fail."""
        with self._lock:
            self._faults.append(Fault(kind, method, times))

    def answer(self, request: Request) -> Answer | None:
        """The answer, or None if it is lost; the whole request is one atomic step."""
        with self._lock:
            self.requests.append(request)
            fault = self._take_fault(request.method)
            if fault == "refuse":
                return Answer(503, _error("SlowDown"))
            if fault == "conflict":
                return Answer(409, _error("ConditionalRequestConflict"))
            answer = self._dispatch(request)
            return None if fault == "drop_response" else answer

    def _take_fault(self, method: str) -> FaultKind | None:
        for fault in self._faults:
            if fault.method == method and fault.times > 0:
                fault.times -= 1
                return fault.kind
        return None

    def _dispatch(self, request: Request) -> Answer:
        operations: dict[str, Callable[[Request], Answer]] = {
            "GET": self._get if request.key else self._list,
            "HEAD": self._get,
            "PUT": self._put_part if "uploadId" in request.query else self._put,
            "DELETE": self._abort if "uploadId" in request.query else self._delete,
            "POST": self._post,
        }
        return operations[request.method](request)

    def _store(self, request: Request, data: bytes) -> Answer | None:
        """Store if the condition holds; otherwise the refusal."""
        if request.if_absent and request.key in self.objects:
            return Answer(412, _error("PreconditionFailed"))
        self.objects[request.key] = Stored(data, float(1_700_000_000 + next(self._numbers)))
        return None

    def _put(self, request: Request) -> Answer:
        refusal = self._store(request, request.body)
        return refusal or Answer(200, headers={"ETag": self.objects[request.key].etag})

    def _get(self, request: Request) -> Answer:
        stored = self.objects.get(request.key)
        if stored is None:
            return Answer(404, _error("NoSuchKey"))
        headers = {"ETag": stored.etag, "Last-Modified": formatdate(stored.modified, usegmt=True)}
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
        if wanted is None:
            return Answer(200, stored.data, headers)
        return _ranged(stored.data, int(wanted[1]), wanted[2], headers)

    def _delete(self, request: Request) -> Answer:
        self.objects.pop(request.key, None)
        return Answer(204)

    def _list(self, request: Request) -> Answer:
        after = request.query.get("continuation-token", "")
        prefix = request.query.get("prefix", "")
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        page, more = keys[:PAGE_KEYS], len(keys) > PAGE_KEYS
        contents = "".join(_contents(key, self.objects[key]) for key in page)
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if more else ""
        return _xml(
            f"<ListBucketResult><IsTruncated>{str(more).lower()}</IsTruncated>"
            f"<KeyCount>{len(page)}</KeyCount>{token}{contents}</ListBucketResult>"
        )

    def _post(self, request: Request) -> Answer:
        if "uploads" in request.query:
            upload = f"upload-{next(self._numbers)}"
            self.uploads[upload] = {}
            return _xml(
                f"<InitiateMultipartUploadResult><Bucket>{BUCKET}</Bucket>"
                f"<Key>{escape(request.key)}</Key><UploadId>{upload}</UploadId>"
                "</InitiateMultipartUploadResult>"
            )
        return self._bulk_delete(request) if "delete" in request.query else self._complete(request)

    def _put_part(self, request: Request) -> Answer:
        self.uploads[request.query["uploadId"]][int(request.query["partNumber"])] = request.body
        return Answer(200, headers={"ETag": f'"part-{request.query["partNumber"]}"'})

    def _complete(self, request: Request) -> Answer:
        parts = self.uploads[request.query["uploadId"]]
        refusal = self._store(request, b"".join(parts[number] for number in sorted(parts)))
        if refusal is not None:
            return refusal
        del self.uploads[request.query["uploadId"]]
        etag = escape(self.objects[request.key].etag)
        return _xml(
            f"<CompleteMultipartUploadResult><Bucket>{BUCKET}</Bucket>"
            f"<Key>{escape(request.key)}</Key><ETag>{etag}</ETag></CompleteMultipartUploadResult>"
        )

    def _abort(self, request: Request) -> Answer:
        self.uploads.pop(request.query["uploadId"], None)
        return Answer(204)

    def _bulk_delete(self, request: Request) -> Answer:
        keys = [
            node.text or ""
            for node in ElementTree.fromstring(request.body).iter()
            if node.tag.endswith("Key")
        ]
        for key in keys:
            self.objects.pop(key, None)
        deleted = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
        return _xml(f"<DeleteResult>{deleted}</DeleteResult>")

    def _handler(server: "S3Server") -> type[BaseHTTPRequestHandler]:  # noqa: N805
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                answer = server.answer(self._request())
                if answer is None:
                    self.close_connection = True
                    return
                self._send(answer)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any  # noqa: N815

            def _request(self) -> Request:
                url = urlsplit(self.path)
                _, _, key = url.path.lstrip("/").partition("/")
                query = {k: v[0] for k, v in parse_qs(url.query, keep_blank_values=True).items()}
                headers = {name.lower(): value for name, value in self.headers.items()}
                body = self.rfile.read(int(headers.get("content-length", "0")))
                return Request(self.command, unquote(key), query, headers, body)

            def _send(self, answer: Answer) -> None:
                self.send_response(answer.status)
                for name, value in answer.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(answer.body)))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(answer.body)

            def log_message(self, *_args: object) -> None:
                """Silence."""

        return Handler


def _ranged(data: bytes, start: int, last: str, headers: dict[str, str]) -> Answer:
    if start >= len(data):
        return Answer(416, _error("InvalidRange"))
    stop = min(int(last) + 1 if last else len(data), len(data))
    headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
    return Answer(206, data[start:stop], headers)


def _contents(key: str, stored: Stored) -> str:
    # S3 writes times in ISO 8601 here, unlike in headers.
    moment = datetime.fromtimestamp(stored.modified, UTC)
    modified = moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return (
        f"<Contents><Key>{escape(key)}</Key><LastModified>{modified}</LastModified>"
        f"<ETag>{escape(stored.etag)}</ETag><Size>{len(stored.data)}</Size></Contents>"
    )


def _xml(body: str) -> Answer:
    return Answer(200, f'<?xml version="1.0" encoding="UTF-8"?>{body}'.encode())


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
