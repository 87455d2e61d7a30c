"""A host for everyday tools: pages, echoes and a repository, by HTTP and by HTTPS. Prints both ports."""
import http.server, os, ssl, subprocess, sys, threading

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, body, kind="text/plain", code=200):
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            said = b""
            while size := int(self.rfile.readline(), 16):
                said += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return said
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def git(self):
        path, _, query = self.path.partition("?")
        said = self.body()
        variables = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": sys.argv[2], "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
            "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(said)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "REMOTE_USER": "somebody", "REMOTE_ADDR": "127.0.0.1",
        }
        got = subprocess.run(["git", "http-backend"], input=said, env=variables, stdout=subprocess.PIPE, check=True).stdout
        head, _, body = got.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.answer(body, headers["Content-Type"], int(headers.get("Status", "200").split()[0]))

    def do_GET(self):
        if self.path.startswith("/repository.git"):
            self.git()
        else:
            self.answer(b"page " + self.path.encode())

    def do_POST(self):
        if self.path.startswith("/repository.git"):
            self.git()
        else:
            self.answer(b"echo " + self.body())

    def log_message(self, *_):
        pass

plain, secure = (http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) for _ in range(2))
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1])
secure.socket = context.wrap_socket(secure.socket, server_side=True)
threading.Thread(target=plain.serve_forever, daemon=True).start()
print(plain.server_port, secure.server_port, flush=True)
# Ends with whoever started it.
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
secure.serve_forever()
