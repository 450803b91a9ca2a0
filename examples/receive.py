"""The smallest endpoint for reports: stores each POST in the folder day/. For trials: no TLS, no authentication."""
import hashlib, http.server, pathlib

class Reports(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        size = int(self.headers["Content-Length"])
        if size > 1 << 20:
            return self.send_error(413)
        report = self.rfile.read(size)
        pathlib.Path("day", hashlib.sha256(report).hexdigest() + ".wedjat").write_bytes(report)
        self.send_response(200)
        self.end_headers()

pathlib.Path("day").mkdir(exist_ok=True)
http.server.ThreadingHTTPServer(("", 8000), Reports).serve_forever()
