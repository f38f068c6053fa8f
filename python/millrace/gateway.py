# SPDX-License-Identifier: Apache-2.0
"""Addresses that the library does not read itself (hf://, gs://, adl://, memory://) by way of fsspec.

The library asks for objects in one way, by HTTP. So a server in this process, for this machine alone
and behind a path that nobody can guess, answers as S3 does and takes the bytes from fsspec: ranges,
versions, retries, limits, traces and kept objects are those of any other server. What it costs is what
Python costs: every byte passes through the interpreter, under its lock, and stats() shows the time.

Versions are what fsspec calls `ukey`. It is looked up again for each request, so that an object that is
replaced during a run is found out; file systems that keep listings may answer from those."""
import http.server
import os
import re
import secrets
import threading
import time
import urllib.parse
import xml.sax.saxutils

from ._pipeline import _KNOWN

_PAGE = 1000  # names of a listing at once


class _Refused(Exception):
    def __init__(self, status, code):
        super().__init__(code)
        self.status, self.code = status, code


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format, *arguments):
        """Nothing: requests are counted, not told."""

    def do_GET(self):
        began = time.perf_counter()
        try:
            status, headers, body = self._answer()
        except _Refused as refused:
            status, headers, body = refused.status, {}, f"<Code>{refused.code}</Code>".encode()
        except FileNotFoundError:
            status, headers, body = 404, {}, b"<Code>NoSuchKey</Code>"
        except PermissionError:
            status, headers, body = 403, {}, b"<Code>AccessDenied</Code>"
        except Exception as failure:  # whatever a file system raises may pass; the library asks again
            text = xml.sax.saxutils.escape(type(failure).__name__)
            status, headers, body = 500, {}, f"<Code>{text}</Code>".encode()
        self.server.gateway.count(status < 400, len(body), time.perf_counter() - began)
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _answer(self):
        path, _, query = self.path.partition("?")
        token, scheme, bucket, key = [urllib.parse.unquote(p) for p in (path[1:].split("/", 3) + ["", "", ""])[:4]]
        if not secrets.compare_digest(token.encode(), self.server.gateway.token.encode()):
            raise _Refused(403, "AccessDenied")
        system = self.server.gateway.system(scheme)
        root = f"{bucket}/{key}" if key else bucket
        return self._list(system, scheme, bucket, query) if query else self._read(system, f"{scheme}://{root}")

    def _read(self, system, path):
        size, tag = system.size(path), f'"{system.ukey(path)}"'
        wanted = self.headers.get("If-Match")
        if wanted is not None and wanted != tag:
            raise _Refused(412, "PreconditionFailed")
        headers = {"ETag": tag}
        asked = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        if not asked:
            return 200, headers, self._bytes(system, path, tag)
        first, last = int(asked[1]), min(int(asked[2]), size - 1)
        if first > last:
            return 416, {**headers, "Content-Range": f"bytes */{size}"}, b""
        body = self._bytes(system, path, tag, start=first, end=last + 1)
        return 206, {**headers, "Content-Range": f"bytes {first}-{last}/{size}"}, body

    def _bytes(self, system, path, tag, **part):
        """Bytes of this version: what was replaced while they were read is not given for it."""
        body = system.cat_file(path, **part)
        if f'"{system.ukey(path)}"' != tag:
            raise _Refused(412, "PreconditionFailed")
        return body

    def _list(self, system, scheme, bucket, query):
        asked = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))
        prefix, after = asked.get("prefix", ""), asked.get("continuation-token", "")
        names = self.server.gateway.names(system, scheme, bucket, prefix, bool(after))
        page = [n for n in names if n[0] > after][:_PAGE + 1]
        more, page = len(page) > _PAGE, page[:_PAGE]
        items = "".join(
            f"<Contents><Key>{urllib.parse.quote(key)}</Key><ETag>&quot;{system.ukey(path)}&quot;</ETag>"
            f"<Size>{size}</Size></Contents>" for key, size, path in page)
        token = f"<NextContinuationToken>{xml.sax.saxutils.escape(page[-1][0])}</NextContinuationToken>" if more else ""
        body = (f"<ListBucketResult><EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>"
                f"{token}{items}</ListBucketResult>")
        return 200, {"Content-Type": "application/xml"}, body.encode()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        """Nothing: a client that goes away, as one does that cancels, is no failure."""


class Gateway:
    """The server, started when it is made."""

    def __init__(self):
        self.token = secrets.token_urlsafe(24)
        self._lock = threading.Lock()
        self._systems, self._listed = {}, (None, [])
        self.requests = self.failures = self.bytes = 0
        self.seconds = 0.0
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.gateway = self
        threading.Thread(target=self._server.serve_forever, name="mr-gateway", daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self._server.server_address[1]}/{self.token}"

    def system(self, scheme):
        import fsspec
        if scheme in _KNOWN:
            raise _Refused(403, "AccessDenied")
        with self._lock:
            if scheme not in self._systems:
                self._systems[scheme] = fsspec.filesystem(scheme)
            return self._systems[scheme]

    def names(self, system, scheme, bucket, prefix, later):
        """Key, size and path of everything whose key begins so, in bytewise order of keys; the last
        listing is kept for its later pages alone, so that who begins sees what is there now."""
        asked = (scheme, bucket, prefix)
        with self._lock:
            if later and self._listed[0] == asked:
                return self._listed[1]
        folder = prefix.rpartition("/")[0]
        top = f"{bucket}/{folder}" if folder else bucket
        root = system._strip_protocol(f"{scheme}://{bucket}").strip("/")
        found = []
        for path, info in system.find(f"{scheme}://{top}", detail=True).items():
            key = path.strip("/")[len(root):].lstrip("/")
            if key.startswith(prefix):
                found.append((key, info["size"], path))
        found.sort(key=lambda entry: entry[0].encode())
        with self._lock:
            self._listed = (asked, found) if len(found) > _PAGE else (None, [])
        return found

    def count(self, well, size, seconds):
        with self._lock:
            self.requests += 1
            self.failures += not well
            self.bytes += size if well else 0
            self.seconds += seconds

    def stats(self):
        with self._lock:
            return {"requests": self.requests, "failures": self.failures, "bytes": self.bytes,
                    "seconds": self.seconds}


_running = None
_starting = threading.Lock()


def serve():
    """The gateway of this process, for lists that name such addresses; documents that do start it
    by themselves."""
    global _running
    with _starting:
        if _running is None:
            import fsspec  # noqa: F401  (says which package is missing)
            _running = Gateway()
            os.environ["MILLRACE_GATEWAY"] = _running.address
        return _running


def stats():
    """What passed through it, or None where nothing did."""
    return _running.stats() if _running is not None and _running.requests else None
