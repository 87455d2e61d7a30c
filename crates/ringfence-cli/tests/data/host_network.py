"""Attempts to get past the supervisor where the sandbox has the host's own network: one line for each."""
import ctypes, errno, socket, struct, sys, threading

libc = ctypes.CDLL(None, use_errno=True)

def name(number):
    return errno.errorcode.get(number, number)

def is_loopback(s):
    return s.getsockname()[0] in ("127.0.0.1", "::1")

def listens(port):
    """Listens without an address, also after one was given up, and while it is being given up."""
    got = set()
    for family in (socket.AF_INET, socket.AF_INET6):
        s = socket.socket(family)
        s.listen()
        got.add(is_loopback(s))
    s = socket.socket()
    s.connect((socket.gethostbyname("a.test"), int(port)))
    s.shutdown(socket.SHUT_RDWR)
    try:
        s.listen()
        got.add(is_loopback(s))
    except OSError as error:
        got.add(name(error.errno))
    for _ in range(200):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex((socket.gethostbyname("a.test"), int(port)))
        thread = threading.Thread(target=lambda: libc.shutdown(s.fileno(), 2))
        thread.start()
        if libc.listen(s.fileno(), 5) == 0:
            got.add(is_loopback(s))
        thread.join()
        s.close()
    return sorted(map(str, got))

def options():
    """Sends what is meant for loopback elsewhere."""
    got = []
    for level, option, value in [
        (socket.SOL_SOCKET, 25, b"lo\0"),
        (socket.SOL_SOCKET, 62, struct.pack("=i", 1)),
        (socket.IPPROTO_IP, 4, bytes([131, 7, 4, 192, 0, 2, 1, 0])),
        (socket.IPPROTO_IP, 50, struct.pack(">i", 1)),
        (socket.IPPROTO_TCP, 30, struct.pack("=i", 1)),
    ]:
        with socket.socket() as s:
            try:
                s.setsockopt(level, option, value)
                got.append("set")
            except OSError as error:
                got.append(name(error.errno))
    for option in (6, 50, 57, 76):
        with socket.socket(socket.AF_INET6) as s:
            try:
                s.setsockopt(socket.IPPROTO_IPV6, option, bytes(20))
                got.append("set")
            except OSError as error:
                got.append(name(error.errno))
    return got

def takes(port):
    """Takes an address at which ways out begin, and connects to the one that is there."""
    s = socket.create_connection(("a.test", int(port)), 20)
    ours = [line.split()[2] for line in open("/proc/self/net/tcp") if f"0100007F:{s.getsockname()[1]:04X}" == line.split()[1]]
    address, at = ours[0].split(":")
    address = socket.inet_ntoa(bytes.fromhex(address)[::-1])
    got = []
    for place in ((address, int(at, 16)), (address, 0), ("127.198.0.1", 0)):
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            try:
                other.bind(place)
                got.append("bound")
            except OSError as error:
                got.append(name(error.errno))
    with socket.socket() as other:
        got.append(name(other.connect_ex((address, int(at, 16)))))
    return address.startswith("127.198."), got

def again(port, other):
    """Uses a connected socket for another connection."""
    s = socket.create_connection(("a.test", int(port)), 20)
    got = [name(s.connect_ex(("127.0.0.1", int(other))))]
    got.append(libc.connect(s.fileno(), bytes(16), 16) and name(ctypes.get_errno()))
    s.shutdown(socket.SHUT_RDWR)
    got.append(name(s.connect_ex(("127.0.0.1", int(other)))))
    return got

def datagrams(port):
    """Sends to a service of the host by every call, with addresses and interfaces of the caller's choice."""
    to = ("127.0.0.1", int(port))
    pktinfo = [(socket.IPPROTO_IP, 8, struct.pack("=i4s4s", 1, socket.inet_aton("127.0.0.1"), bytes(4)))]
    packed = [struct.pack("=H", socket.AF_INET) + struct.pack(">H", p) + socket.inet_aton(a) + bytes(8) for p, a in ((53, "192.0.2.1"), (to[1], to[0]))]
    address = ctypes.create_string_buffer(packed[0], 16)
    s = socket.socket(type=socket.SOCK_DGRAM)
    s.setblocking(False)
    over = threading.Event()
    def change():
        while not over.is_set():
            for one in packed:
                ctypes.memmove(address, one, 16)
    thread = threading.Thread(target=change)
    thread.start()
    connected = 0
    for _ in range(300):
        for call in (
            lambda: s.sendto(b"leak", to),
            lambda: s.sendmsg([b"leak"], [], 0, to),
            lambda: s.sendmsg([b"leak"], pktinfo, 0, to),
        ):
            try:
                call()
            except OSError:
                pass
        libc.sendto(s.fileno(), b"leak", 4, 0, address, 16)
        connected += libc.connect(s.fileno(), address, 16) == 0
        libc.send(s.fileno(), b"leak", 4, 0)
    over.set()
    thread.join()
    return connected > 0

def asks(server, question):
    """Looks a name up by a server of its own choice, as resolvers do that trust nobody else's answer."""
    query = b"\xab\xcd\1\0\0\1\0\0\0\0\0\0" + b"".join(bytes([len(l)]) + l.encode() for l in question.split(".")) + b"\0\0\1\0\1"
    got = []
    for blocking in (True, False):
        with socket.socket(type=socket.SOCK_DGRAM) as s:
            if not blocking:
                s.settimeout(20)
            s.bind(("0.0.0.0", 0))
            s.sendto(query, (server, 53))
            answer, who = s.recvfrom(512)
            got.append((socket.inet_ntoa(answer[-4:]).startswith("198.18."), who))
            s.sendto(query, (server, 53))
            again, _, _, who = s.recvmsg(512)
            got.append((again == answer, who))
    return got

for line in sys.argv[1:]:
    what, *arguments = line.split(",")
    try:
        got = globals()[what](*arguments)
    except OSError as error:
        got = name(error.errno) if error.errno else type(error).__name__
    print(line, got, flush=True)
