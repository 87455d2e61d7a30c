"""What a program does with datagrams, one line for each: what it asked for, and what it got."""
import ctypes, errno, socket, sys

def name(number):
    return errno.errorcode.get(number, number)

def fresh():
    s = socket.socket(type=socket.SOCK_DGRAM)
    s.settimeout(20)
    return s

def at(host, port):
    return socket.gethostbyname(host), int(port)

def connected(host, port):
    s = fresh()
    s.connect(at(host, port))
    s.send(b"hello")
    return s.recv(100).decode(), s.getpeername() == at(host, port)

def sendto(host, port):
    s = fresh()
    s.sendto(b"hello", at(host, port))
    said, peer = s.recvfrom(100)
    return said.decode(), peer == at(host, port)

def sendmsg(host, port):
    s = fresh()
    s.sendmsg([b"hel", b"lo"], [], 0, at(host, port))
    return s.recv(100).decode()

def sendmmsg(*pairs):
    """One call with a message for each host and port."""
    class iovec(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
    class msghdr(ctypes.Structure):
        _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint32), ("iov", ctypes.POINTER(iovec)), ("iovlen", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t), ("flags", ctypes.c_int)]
    class mmsghdr(ctypes.Structure):
        _fields_ = [("header", msghdr), ("length", ctypes.c_uint)]
    libc = ctypes.CDLL(None, use_errno=True)
    s = fresh()
    text = ctypes.create_string_buffer(b"hello", 5)
    part = iovec(ctypes.addressof(text), 5)
    places = list(zip(pairs[::2], pairs[1::2]))
    messages, kept = (mmsghdr * len(places))(), []
    for message, (host, port) in zip(messages, places):
        ip, port = at(host, port)
        address = ctypes.create_string_buffer(socket.AF_INET.to_bytes(2, sys.byteorder) + port.to_bytes(2, "big") + socket.inet_aton(ip) + bytes(8), 16)
        kept.append(address)
        message.header.name, message.header.namelen = ctypes.addressof(address), 16
        message.header.iov, message.header.iovlen = ctypes.pointer(part), 1
    sent = libc.sendmmsg(s.fileno(), messages, len(places), 0)
    if sent < 0:
        raise OSError(ctypes.get_errno(), "sendmmsg")
    return sent, sorted(s.recv(100).decode() for _ in range(sent))

def mapped(host, port):
    s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    s.settimeout(20)
    ip, port = at(host, port)
    s.sendto(b"hello", ("::ffff:" + ip, port))
    return s.recv(100).decode()

def bound(host, port):
    s = fresh()
    s.bind(("0.0.0.0", 0))
    own = s.getsockname()[1]
    s.sendto(b"hello", at(host, port))
    said = s.recv(100).decode()
    return said, s.getsockname()[1] == own

def flows(host, port):
    """Two sockets, each of which hears its own answer."""
    a, b = fresh(), fresh()
    a.sendto(b"one", at(host, port))
    b.sendto(b"two", at(host, port))
    return b.recv(100).decode(), a.recv(100).decode()

def big(host, port):
    s = fresh()
    said = bytes(range(256)) * 255
    s.sendto(said, at(host, port))
    return s.recv(70000) == b"heard " + said

def silent(host, port):
    """Says something that is answered by nobody, until the network says that nobody is there."""
    s = fresh()
    s.settimeout(0.1)
    s.connect(at(host, port))
    for _ in range(200):
        try:
            s.send(b"hello")
            s.recv(100)
        except TimeoutError:
            pass
    return "nothing"

def leaves(host, port, text):
    """Says it, and is gone."""
    fresh().sendto(text.encode(), at(host, port))
    return "said"

def probe(host, port):
    """Connects and says nothing, as those do that only look for a way."""
    fresh().connect(at(host, port))
    return "connected"

for line in sys.argv[1:]:
    what, *arguments = line.split(",")
    try:
        got = globals()[what](*arguments)
    except TimeoutError:
        got = "nothing came"
    except OSError as error:
        got = name(error.errno) if error.errno else type(error).__name__
    print(line, got, flush=True)
