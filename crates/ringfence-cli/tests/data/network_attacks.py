def mapped_ways(port, *addresses):
    """Every spelling of addresses by the newer family, waiting and not."""
    got = set()
    for address in addresses:
        for waits in (True, False):
            with socket.socket(socket.AF_INET6) as s:
                s.setblocking(waits)
                code = s.connect_ex((address.replace("=", ":"), int(port)))
                if code == errno.EINPROGRESS:
                    select.select([], [s], [], 20)
                    code = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code == 0:
                    s.send(b"GET / HTTP/1.0\r\n\r\n")
                got.add(name(code))
    return "reached" if 0 in got else "refused"

def device(host, port, other):
    """Says by which interface, and with which address, packets are to leave."""
    got = []
    for interface in (b"eth0", b"lo"):
        with socket.socket() as s:
            s.settimeout(5)
            try:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface)
                s.connect((socket.gethostbyname(other), int(port)))
                got.append("reached")
            except OSError as error:
                got.append(name(error.errno))
    with socket.socket() as s:
        s.settimeout(20)
        s.bind((socket.gethostbyname(host), 0))
        got.append(name(s.connect_ex((socket.gethostbyname(other), int(port)))))
    return "reached" if "reached" in got or 0 in got else "refused"

def route():
    """Changes the network itself: an address, and a way to everybody."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as s:
        got = []
        for kind, body in ((20, struct.pack("BBBBI", 2, 32, 0, 0, 1) + struct.pack("HH4s", 8, 2, bytes([10, 0, 0, 1]))), (24, struct.pack("BBBBBBBBI", 2, 0, 0, 0, 254, 3, 0, 1, 0) + struct.pack("HHI", 8, 4, 1))):
            s.send(struct.pack("IHHII", 16 + len(body), kind, 0x605, 1, 0) + body)
            got.append(name(-struct.unpack("i", s.recv(1000)[16:20])[0]))
        return got

def rings():
    """Connects by a ring, which no filter of calls sees."""
    libc = ctypes.CDLL(None, use_errno=True)
    parameters = ctypes.create_string_buffer(120)
    libc.syscall(425, 8, parameters)
    return name(ctypes.get_errno())

def handed(host, port, other, other_port):
    """Gives a connection to another process, which tries to lead it elsewhere."""
    import os
    ours, theirs = socket.socketpair()
    if os.fork() == 0:
        s, fresh = socket.socket(), socket.socket()
        s.connect((socket.gethostbyname(host), int(port)))
        socket.send_fds(ours, [b"x"], [s.fileno(), fresh.fileno()])
        os._exit(0)
    ours.close()
    os.wait()
    _, descriptors, _, _ = socket.recv_fds(theirs, 1, 2)
    given, fresh = (socket.socket(fileno=one) for one in descriptors)
    elsewhere = (socket.gethostbyname(other), int(other_port))
    got = [name(one.connect_ex(elsewhere)) for one in (given.dup(), fresh)]
    given.sendall(b"hello")
    given.shutdown(socket.SHUT_WR)
    said = given.recv(100).decode()
    # Once it is nobody's any more it can be connected again.
    libc = ctypes.CDLL(None, use_errno=True)
    libc.connect(given.fileno(), struct.pack("=H", socket.AF_UNSPEC) + bytes(14), 16)
    got.append(name(given.connect_ex(elsewhere)))
    return said, got

def both_at_once(host, port, other, other_port, rounds):
    """Connects one socket to two hosts from two threads."""
    good, bad = (socket.gethostbyname(host), int(port)), (socket.gethostbyname(other), int(other_port))
    for _ in range(int(rounds)):
        with socket.socket() as s:
            s.settimeout(20)
            def connect(to, s=s.dup()):
                if s.connect_ex(to) == 0:
                    s.send(b"hello")
            threads = [threading.Thread(target=connect, args=(to,)) for to in (good, bad)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    return "tried"

def tunnel(*servers):
    """Asks for names that are what it wants to say, of every kind, wherever it can."""
    got = set()
    for server in servers:
        with socket.socket(type=socket.SOCK_DGRAM) as s:
            s.settimeout(5)
            for kind in (1, 5, 10, 15, 16, 28, 64, 65, 255):
                label = bytes([60]) + b"%02x" % kind + b"c2VjcmV0" * 7 + b"xx"
                question = struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + label * 3 + b"\4evil\4test\0" + struct.pack(">HH", kind, 1)
                s.sendto(question, (server, 53))
                answer = s.recv(2000)
                # For an address one that is the sandbox's own, for everything else nothing.
                got.add((answer[3] & 15, answer[7] if kind != 1 else answer[-4:-2] == bytes([198, 18])))
    return sorted(got, key=str)

def says(host, port, text, *then):
    """Says these bytes, or what is in a file, and more a moment later; what comes back, up to the end."""
    with socket.create_connection((host, int(port)), 20) as s:
        said = b""
        for part in (text, *then):
            s.sendall(open(part[1:], "rb").read() if part[0] == "@" else bytes.fromhex(part))
            s.settimeout(0.3)
            try:
                said += s.recv(1000)
            except OSError:
                pass
        s.settimeout(20)
        try:
            s.shutdown(socket.SHUT_WR)
            while more := s.recv(1000):
                said += more
        except OSError as error:
            return said.decode("latin-1"), name(error.errno)
        return said.decode("latin-1"), "ended"

def hello_bytes(server_name, extension=b""):
    """A whole ClientHello, with one more extension."""
    context = ssl._create_unverified_context()
    inwards, outwards = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(inwards, outwards, server_hostname=server_name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    hello = outwards.read()[9:]
    at = 2 + 32
    at += 1 + hello[at]
    at += 2 + int.from_bytes(hello[at:at + 2], "big")
    at += 1 + hello[at]
    extensions = hello[at + 2:] + extension
    hello = hello[:at] + struct.pack(">H", len(extensions)) + extensions
    hello = b"\1" + len(hello).to_bytes(3, "big") + hello
    return b"\x16\3\1" + struct.pack(">H", len(hello)) + hello

def greets(host, port, how, server_name=""):
    """Begins TLS in ways that servers read differently, or that hide something."""
    encrypted = bytes.fromhex("fe0d") + struct.pack(">H", 40) + bytes([0, 0, 1, 0, 1, 7, 0, 4]) + b"abcd" + struct.pack(">H", 26) + bytes(26)
    whole = hello_bytes(server_name or None, encrypted if how == "encrypted" else b"")
    twice = struct.pack(">HHHBH", 0, len("b.test") + 5, len("b.test") + 3, 0, len("b.test")) + b"b.test"
    sent = {"half": whole[:40], "rubbish": b"\x16" + bytes(range(256)) * 256, "twice": hello_bytes(server_name or None, twice)}.get(how, whole)
    return says(host, port, sent.hex())[0].startswith("heard")

