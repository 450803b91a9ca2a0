"""Makes a release of the Swift package, serves its zip from here, and does with it what SwiftPM does: reads the address and
the checksum in the manifest, fetches, compares, unpacks.

released.py FOLDER   leaves FOLDER/CWedjat.xcframework
"""

import functools
import hashlib
import http.server
import pathlib
import plistlib
import re
import ssl
import subprocess
import sys
import threading
import urllib.request
import zipfile

root = pathlib.Path(__file__).resolve().parents[2]
folder = pathlib.Path(sys.argv[1])
out = folder / "release"
out.mkdir(parents=True)
# SwiftPM takes a binary target by https alone.
key, certificate = folder / "key.pem", folder / "certificate.pem"
subprocess.run(
    ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-keyout", key, "-out", certificate,
     "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], check=True, capture_output=True)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=out))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server.socket = context.wrap_socket(server.socket, server_side=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
address = f"https://localhost:{server.server_port}/CWedjat.xcframework.zip"


def release():
    subprocess.run([root / "apple/release", address, out], check=True, capture_output=True)
    manifest = (out / "package/Package.swift").read_text()
    (target,) = re.findall(r'^let released: .* = \("([^"]+)", "([0-9a-f]{64})"\)$', manifest, flags=re.M)
    assert '.binaryTarget(name: "CWedjat", url: released.url, checksum: released.checksum)' in manifest, manifest
    return target


url, checksum = release()
with urllib.request.urlopen(url, context=ssl.create_default_context(cafile=str(certificate))) as answer:
    bytes = answer.read()
assert hashlib.sha256(bytes).hexdigest() == checksum, checksum
assert release() == (url, checksum), "the same libraries give another zip"
(folder / "fetched.zip").write_bytes(bytes)
with zipfile.ZipFile(folder / "fetched.zip") as zip:
    assert {pathlib.PurePath(name).parts[0] for name in zip.namelist()} == {"CWedjat.xcframework"}
    zip.extractall(folder)
framework = folder / "CWedjat.xcframework"
with open(framework / "PrivacyInfo.xcprivacy", "rb") as manifest:
    assert plistlib.load(manifest)["NSPrivacyTracking"] is False
package = out / "package"
for path in (root / "apple/Sources").rglob("*"):
    assert not path.is_file() or (package / path.relative_to(root)).read_bytes() == path.read_bytes(), path
server.shutdown()
