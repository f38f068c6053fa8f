# SPDX-License-Identifier: Apache-2.0
"""How long a run over millions of objects takes to its first batch where their listing is kept in an
index: the index is written as the library would, and a server of this machine has any object.

    far_start.py MILLRACE [OBJECTS]
"""
import http.server
import json
import os
import struct
import subprocess
import sys
import tempfile
import threading

import numpy as np
import xxhash

EXTENSIONS = ["jpg"]
BODY = b"x" * 1000
ROOT = "s3://photos/train"


class Any(http.server.BaseHTTPRequestHandler):
    """Every object is the same thousand bytes."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def do_GET(self):
        self.send_response(206)
        for name, value in {"Content-Length": len(BODY), "ETag": '"0123456789abcdef"',
                            "Content-Range": f"bytes 0-{len(BODY) - 1}/{len(BODY)}"}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(BODY)


def write_index(path, n, classes=1000):
    """As src/sources/listing.c writes it: a head, where names begin, names with their objects."""
    each = n // classes
    parts, starts, at = [], np.empty(each * classes, np.int64), 0
    for c in range(classes):
        for i in range(each):
            name = f"c{c:04d}/{i:07d}.jpg"
            entry = f"{name}\0{ROOT}/{name}#size={len(BODY)}&tag=%220123456789abcdef%22\0".encode()
            starts[c * each + i] = at
            at += len(entry)
            parts.append(entry)
    key = xxhash.xxh3_64_intdigest(ROOT.encode(), 7)
    for extension in EXTENSIONS:
        key = xxhash.xxh3_64_intdigest(extension.encode() + b"\0", key)
    rest = struct.pack("<5Q", key, each * classes, 0, at, 0) + starts.tobytes() + b"".join(parts)
    with open(path, "wb") as out:
        out.write(b"mrfiles1" + struct.pack("<Q", xxhash.xxh3_64_intdigest(rest)) + rest)
    return each * classes


def main():
    millrace, n = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10_000_000
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Any)
    server.handle_error = lambda *arguments: None  # what was asked for ahead is cancelled at the end
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        index, document = f"{folder}/index", f"{folder}/p.json"
        n = write_index(index, n)
        with open(document, "w") as out:
            json.dump({"source": {"files": {"path": ROOT, "index": index, "extensions": EXTENSIONS}},
                       "batch": 16, "shuffle": True}, out)
        environment = {**os.environ, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
                       "AWS_NO_SIGN_REQUEST": "yes"}
        for _ in range(3):
            done = subprocess.run([millrace, "run", document, "--steps", "1", "--json", "--quiet"],
                                  capture_output=True, env=environment)
            if done.returncode:
                sys.exit(done.stderr.decode())
            told = json.loads(done.stdout)
            assert told["dataset_samples"] == n
            print(f"{n:,} objects of an index of {os.path.getsize(index) / 1e6:.0f} MB: first batch after "
                  f"{told['first_batch_seconds']:.2f} s, {told['peak_rss_bytes'] / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
