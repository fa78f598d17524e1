"""Programs that previews are tried with, run inside a guest by its own `python3`: a server that says what it heard, and
one for each way of going wrong. Read by tests, never imported by them.

`python3 guest_programs.py PORT [ADDRESS]`. Standard library alone, WebSocket included.
"""

import base64
import hashlib
import json
import socket
import socketserver
import struct
import sys
import time
from http.server import BaseHTTPRequestHandler

MIB = 1024 * 1024
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def say(self, status, body, *headers):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def answer(self):
        path = self.path.partition("?")[0]
        getattr(self, "on_" + path.strip("/").replace("-", "_").split("/")[0], self.echo)()

    do_GET = do_POST = do_PUT = do_HEAD = do_OPTIONS = do_PURGE = do_DELETE = answer

    def handle_expect_100(self):
        if self.path == "/no-thanks":
            self.on_no_thanks()
            return False
        return super().handle_expect_100()

    def body(self):
        """Counted and hashed as it comes."""
        size, digest = 0, hashlib.sha256()
        for piece in self.pieces():
            size += len(piece)
            digest.update(piece)
        return size, digest.hexdigest()

    def pieces(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            while length := int(self.rfile.readline(), 16):
                yield self.rfile.read(length)
                self.rfile.readline()
            self.rfile.readline()
            return
        left = int(self.headers.get("Content-Length") or 0)
        while left:
            piece = self.rfile.read(min(left, 65536))
            if not piece:
                return
            left -= len(piece)
            yield piece

    def echo(self):
        size, digest = self.body()
        said = {"method": self.command, "target": self.path, "size": size, "sha256": digest,
                "headers": [[k.lower(), v] for k, v in self.headers.items()]}
        self.say(200, json.dumps(said).encode(), ("Content-Type", "application/json"))

    def on_page(self):
        self.say(200, b"<!doctype html><title>guest</title><h1>Hello from the guest</h1>",
                 ("Content-Type", "text/html"), ("Set-Cookie", "app=1; Path=/"))

    def on_cookies(self):
        for_domain = "; Domain=preview.localhost"
        self.say(200, b"", ("Set-Cookie", "a=1; Path=/" + for_domain), ("Set-Cookie", "b=2; HttpOnly"),
                 ("Set-Cookie", "berth_preview=stolen"), ("Set-Cookie", "__Host-berth_session=x; Secure; Path=/"),
                 ("Set-Cookie", "=berth_session=x"), ("Set-Cookie", "berth_csrf"))

    def on_login(self):
        self.say(302, b"", ("Location", f"http://localhost:{self.server.server_address[1]}/page?next=%2Fx"))

    def on_internal(self):
        self.say(200, b"inner", ("X-Accel-Redirect", "/etc/passwd"), ("X-Sendfile", "/etc/passwd"),
                 ("Alt-Svc", 'h3=":443"'), ("Clear-Site-Data", '"cookies"'), ("X-Mine", "kept"))

    def on_away(self):
        self.say(302, b"", ("Location", "http://169.254.169.254/latest/meta-data/"))

    def on_status(self):
        self.say(int(self.path.split("/")[2]), b"", ("ETag", '"x"'))

    def on_not_modified(self):
        self.send_response(304)
        self.send_header("ETag", '"x"')
        self.send_header("Content-Length", "100")
        self.end_headers()

    def on_cors(self):
        self.say(200, b"{}", ("Access-Control-Allow-Origin", self.headers.get("Origin", "")),
                 ("Access-Control-Allow-Credentials", "true"), ("X-Method", self.command))

    def on_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for number in range(100000):
            self.chunk(b"data: %d\n\n" % number)
            time.sleep(0.2)

    def chunk(self, data):
        self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.flush()

    def on_trailers(self):
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Trailer", "X-Sum")
        self.end_headers()
        self.wfile.write(b"3\r\nabc\r\n0\r\nX-Sum: 1\r\n\r\n")

    def on_large(self):
        count = int(self.path.split("/")[2])
        self.send_response(200)
        self.send_header("Content-Length", str(count * MIB))
        self.end_headers()
        for _ in range(count):
            self.wfile.write(b"\xa5" * MIB)

    def on_ranges(self):
        data = bytes(range(256)) * 4
        first, _, last = self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")
        part = data[int(first):int(last or len(data) - 1) + 1]
        self.say(206, part, ("Content-Range", f"bytes {first}-{int(first) + len(part) - 1}/{len(data)}"),
                 ("Accept-Ranges", "bytes"))

    def on_no_thanks(self):
        """An answer before the body. What still comes is thrown away for a while, as careful servers do."""
        self.say(413, b"no thanks", ("Connection", "close"))
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(2)
        try:
            while self.connection.recv(65536):
                pass
        except OSError:
            pass
        self.close_connection = True

    def on_hang(self):
        time.sleep(600)

    def on_half(self):
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"half")
        self.wfile.flush()
        self.on_reset()

    def on_reset(self):
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True
        self.wfile = self.rfile = __import__("io").BytesIO()

    def on_nonsense(self):
        self.wfile.write(b"\x15\x03\x01 this is no HTTP\r\n\r\n")
        self.close_connection = True

    def on_two_lengths(self):
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
                         b"3\r\nabc\r\n0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        self.close_connection = True

    def on_surplus(self):
        """An answer nobody asked for, behind the one that was."""
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
                         b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
        self.wfile.flush()

    def on_early(self):
        """Begins to answer, hears the rest, and says what it heard."""
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.chunk(b"begun ")
        for piece in self.pieces():
            self.chunk(b"heard %d " % len(piece))
        self.chunk(b"end")
        self.wfile.write(b"0\r\n\r\n")

    # -- WebSocket

    def on_ws(self):
        key = self.headers["Sec-WebSocket-Key"].encode()
        asked = [p.strip() for p in (self.headers.get("Sec-WebSocket-Protocol") or "").split(",") if p.strip()]
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key + GUID).digest()).decode())
        if "chosen" in asked:
            self.send_header("Sec-WebSocket-Protocol", "chosen")
        self.send_header("Set-Cookie", "ws=1; Domain=preview.localhost")
        self.end_headers()
        self.close_connection = True
        told = {k.lower(): v for k, v in self.headers.items()}
        self.frame(1, json.dumps({"origin": told.get("origin"), "host": told["host"], "target": self.path}).encode())
        self.talk()

    def on_ws_refused(self):
        self.say(418, b"no sockets here", ("X-Why", "tea"))

    def frame(self, opcode, data, fin=True):
        head = bytes([opcode | (0x80 if fin else 0)])
        size = len(data)
        head += bytes([size]) if size < 126 else b"\x7e" + struct.pack("!H", size) if size < 65536 \
            else b"\x7f" + struct.pack("!Q", size)
        self.wfile.write(head + data)
        self.wfile.flush()

    def hear(self):
        first = self.rfile.read(2)
        if len(first) < 2:
            return 8, b""
        opcode, size = first[0] & 15, first[1] & 127
        if size == 126:
            size = struct.unpack("!H", self.rfile.read(2))[0]
        elif size == 127:
            size = struct.unpack("!Q", self.rfile.read(8))[0]
        mask, data = self.rfile.read(4), self.rfile.read(size)
        return opcode, (int.from_bytes(data, "big") ^ int.from_bytes((mask * (size // 4 + 1))[:size], "big")
                        ).to_bytes(size, "big")

    def talk(self):
        while True:
            opcode, data = self.hear()
            if opcode == 8:
                print("closed by", struct.unpack("!H", data[:2])[0] if data else None, data[2:].decode(), flush=True)
                self.frame(8, data)
                return
            if data == b"close me":
                self.frame(8, struct.pack("!H", 4321) + b"as you wish")
                return
            if data == b"reset me":
                self.on_reset()
                return
            if data == b"ping me":
                self.frame(9, b"are you there")
                opcode, data = self.hear()
                self.frame(1, b"pong of " + data if opcode == 10 else b"no pong")
            elif data == b"in pieces":
                self.frame(1, "grüße ".encode()[:3], fin=False)
                self.frame(9, b"between")
                self.frame(0, "grüße ".encode()[3:], fin=False)
                self.frame(0, b"and more")
            elif opcode in (1, 2):
                self.frame(opcode, data)


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True
    request_queue_size = 128


if __name__ == "__main__":
    address = sys.argv[2] if len(sys.argv) > 2 else "127.0.0.1"
    Server.address_family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with Server((address, int(sys.argv[1])), Handler) as server:
        print("listening", flush=True)
        server.serve_forever()
