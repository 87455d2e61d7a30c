def spoken(host, port):
    """Speaks first, without a line, and waits for what the server says to it."""
    with socket.create_connection((host, int(port)), 20) as s:
        s.sendall(b"hello")
        return s.recv(100).decode()

def half(host, port):
    """Hears the server to its end, and speaks then."""
    with socket.create_connection((host, int(port)), 20) as s:
        said = b""
        while part := s.recv(100):
            said += part
        s.sendall(b"after the end")
        return said.decode()

def silent(host, port):
    """Waits for a server that says nothing, as long as it likes to."""
    with socket.create_connection((host, int(port)), 20) as s:
        s.settimeout(0.5)
        s.sendall(b"hello\n")
        return s.recv(1)

def broken(host, port):
    """Reads what comes before the connection breaks."""
    with socket.create_connection((host, int(port)), 20) as s:
        s.sendall(b"hello\n")
        got = b""
        try:
            while part := s.recv(100):
                got += part
        except OSError as error:
            return got.decode(), name(error.errno)
        return got.decode(), "ended"

def limited(host, port):
    """Waits for a connection as long as its socket says."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 1, 0))
    return name(s.connect_ex((socket.gethostbyname(host), int(port))))

def epoll(host, port):
    """Registers its socket before it connects, for changes only, as event loops do."""
    s = socket.socket()
    s.setblocking(False)
    loop = select.epoll()
    loop.register(s, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET | select.EPOLLRDHUP)
    # A socket that is not connected has hung up.
    loop.poll(0)
    begun = s.connect_ex((socket.gethostbyname(host), int(port)))
    events = loop.poll(20)
    error = s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return name(begun), [event & (select.EPOLLOUT | select.EPOLLERR | select.EPOLLHUP) for _, event in events], name(error)

def options(host, port):
    """What a socket was told before stays so, and it knows its peer."""
    s = socket.socket()
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    s.settimeout(20)
    to = (socket.gethostbyname(host), int(port))
    s.connect(to)
    kept = [s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), s.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)]
    again = [name(s.connect_ex(to)), name(s.connect_ex(to))]
    return kept, s.getpeername() == to, again

def eyeballs(host, port):
    """Both kinds of addresses at once."""
    import asyncio
    async def both():
        reader, writer = await asyncio.open_connection(host, int(port), happy_eyeballs_delay=0.05)
        writer.write(b"hello")
        writer.write_eof()
        return (await reader.read()).decode()
    return asyncio.run(both())

def newer_first(host, port):
    """The newer kind of addresses first, and the older when there is none."""
    got = []
    for family in (socket.AF_INET6, socket.AF_INET):
        try:
            got.append([address[4][1] for address in socket.getaddrinfo(host, int(port), family, socket.SOCK_STREAM)])
        except socket.gaierror as error:
            got.append(error.errno == socket.EAI_NODATA or error.errno == socket.EAI_NONAME)
    return got

def beside(host, port, when):
    """Serves on the port that it is connected to somewhere else, without saying that it may be in use."""
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex((socket.gethostbyname(host), int(port)))
    if when != "connecting":
        select.select([], [s], [], 20)
    if when == "over":
        s.close()
    server = socket.socket()
    server.bind(("", int(port)))
    server.listen()
    # Of the sandbox's own it is in the way as ever.
    other = socket.socket()
    try:
        other.bind(("", int(port)))
        second = "bound"
    except OSError as error:
        second = name(error.errno)
    # Another address of loopback than the one that a rule names.
    client = socket.create_connection(("127.0.0.2", int(port)), 20)
    server.settimeout(20)
    accepted, _ = server.accept()
    client.sendall(b"x")
    return accepted.recv(1).decode(), second

def by_stream(server, *hosts):
    """Asks a name server by a stream, in pieces and several at once."""
    server = server.replace("=", ":")
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    for attempt in range(5):
        try:
            return asked_by_stream(family, server, hosts)
        except OSError as error:
            # The kernel makes the way to a new address of this kind some time after the address.
            if family != socket.AF_INET6 or error.errno != errno.ENETUNREACH or attempt == 4:
                raise

def asked_by_stream(family, server, hosts):
    with socket.socket(family) as s:
        s.settimeout(20)
        s.connect((server, 53))
        all = b""
        for number, host in enumerate(hosts):
            question = struct.pack(">HHHHHH", number, 0x100, 1, 0, 0, 0) + b"".join(bytes([len(l)]) + l.encode() for l in host.split(".")) + b"\0\0\1\0\1"
            all += struct.pack(">H", len(question)) + question
        s.sendall(all[:7])
        s.sendall(all[7:])
        got = []
        stream = s.makefile("rb")
        for number, _ in enumerate(hosts):
            answer = stream.read(struct.unpack(">H", stream.read(2))[0])
            assert answer[:2] == struct.pack(">H", number)
            got.append(socket.inet_ntoa(answer[-4:]).startswith("198.18.") if answer[7] else answer[3] & 15)
        return got

def rubbish_by_stream(server):
    """Says what is no question."""
    with socket.create_connection((server, 53), 20) as s:
        s.sendall(b"\0\5hello")
        return s.recv(10)

def holds(host, port):
    """Is connected until somebody ends it."""
    s = socket.create_connection((host, int(port)), 20)
    s.sendall(b"hello\n")
    s.settimeout(None)
    return s.recv(1)

