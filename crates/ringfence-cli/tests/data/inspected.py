# Says exactly what it is told to, inside of TLS: `python3 inspected.py HOST PORT NAME TEXT...`, where NAME is whom TLS
# asks for and TEXT has escapes. Each text is said when something came back for the one before.
import codecs, socket, ssl, sys

host, port, name, *texts = sys.argv[1:]
context = ssl.create_default_context()
if name != host:
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
got = b""
try:
    with socket.create_connection((host, int(port)), timeout=30) as plain:
        with context.wrap_socket(plain, server_hostname=name) as tls:
            for text in texts:
                tls.sendall(codecs.decode(text, "unicode_escape").encode("latin-1"))
                if text is not texts[-1]:
                    got += tls.recv(65536)
            while part := tls.recv(65536):
                got += part
                if b"\r\n\r\n" in part and b"101 Switching" not in part or got.endswith(b"."):
                    break
except (OSError, ssl.SSLError) as error:
    print("failed", type(error).__name__)
sys.stdout.write(got.decode("latin-1"))
