"""What a program does with sockets, one line for each: what it asked for, and what it got."""
import ctypes, errno, select, socket, ssl, struct, sys, threading

def name(number):
    return errno.errorcode.get(number, number)

def waiting(host, port):
    """Connects as a program without an event loop does, and says something until both have ended."""
    with socket.create_connection((host, int(port)), 20) as s:
        s.settimeout(20)
        peer = s.getpeername()
        s.sendall(b"hello")
        s.shutdown(socket.SHUT_WR)
        said = b""
        while part := s.recv(4096):
            said += part
        return said.decode(), peer[1]

def loop(host, port, patience=20):
    """Connects as a program with an event loop does."""
    s = socket.socket()
    s.setblocking(False)
    at_once = s.connect_ex((socket.gethostbyname(host), int(port)))
    ready = select.select([], [s], [], float(patience))[1]
    return name(at_once), bool(ready), name(s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))

def mapped(host, port):
    """Connects by the newer family, as programs for both do."""
    with socket.socket(socket.AF_INET6) as s:
        s.settimeout(20)
        s.connect(("::ffff:" + socket.gethostbyname(host), int(port)))
        s.sendall(b"hello")
        s.shutdown(socket.SHUT_WR)
        return s.recv(100).decode()

def leaves(host, port, count):
    """Says much, and is gone."""
    s = socket.create_connection((host, int(port)), 20)
    # Nothing that could be the beginning of a request.
    s.sendall(bytes(int(count)))
    return "said"

def many(host, port, count):
    address = socket.gethostbyname(host)
    sockets = [socket.socket() for _ in range(int(count))]
    for s in sockets:
        s.setblocking(False)
        begun = s.connect_ex((address, int(port)))
        if begun != errno.EINPROGRESS:
            return name(begun)
    good = 0
    for s in sockets:
        s.settimeout(30)
        select.select([], [s], [], 30)
        s.sendall(b"hello")
        s.shutdown(socket.SHUT_WR)
    for s in sockets:
        good += s.recv(100) == b"heard hello"
    return good

def hello(host, port, other):
    """Begins TLS, and means another host."""
    s = socket.create_connection((host, int(port)), 20)
    context = ssl._create_unverified_context()
    context.wrap_socket(s, server_hostname=other)
    return "shaken"

def swap(host, port, other_port, rounds):
    """Connects while another thread changes the port behind the pointer."""
    libc = ctypes.CDLL(None, use_errno=True)
    packed = [struct.pack("=H", socket.AF_INET) + struct.pack(">H", int(p)) + socket.inet_aton(socket.gethostbyname(host)) + bytes(8) for p in (port, other_port)]
    address = ctypes.create_string_buffer(packed[0], 16)
    over = threading.Event()
    def change():
        while not over.is_set():
            for one in packed:
                ctypes.memmove(address, one, 16)
    thread = threading.Thread(target=change)
    thread.start()
    made = 0
    for _ in range(int(rounds)):
        with socket.socket() as s:
            if libc.connect(s.fileno(), address, 16) == 0:
                made += 1
                s.sendall(b"hello")
    over.set()
    thread.join()
    return made

def datagram(host, port):
    s = socket.socket(type=socket.SOCK_DGRAM)
    s.connect((socket.gethostbyname(host), int(port)))
    s.send(b"hello")
    return "sent"

def fast(host, port):
    """Connects with the first bytes."""
    s = socket.socket()
    return s.sendto(b"hello", 0x20000000, (socket.gethostbyname(host), int(port)))

for line in sys.argv[1:]:
    what, *arguments = line.split(",")
    try:
        got = globals()[what](*arguments)
    except OSError as error:
        got = name(error.errno) if error.errno else type(error).__name__
    print(line, got, flush=True)
