"""Random operations about what is denied and protected, with a thread that exchanges paths and descriptors."""
import ctypes, os, random, sys, threading

seed, rounds = int(sys.argv[1]), int(sys.argv[2])
rng = random.Random(seed)
libc = ctypes.CDLL(None, use_errno=True)
DENIED = [".env", "a/.env", "a/b/secrets.json"]
KEPT = [".git/hooks/pre-commit", ".git/config", ".vscode/settings.json", "a/.claude/settings.json", ".git/hooks/new", ".vscode/new", "a/.claude/new"]
OWN = ["o1", "o2", "a/o3", "d/o4", "d", "a/b", "a", ".git", ".vscode", "l", "a/l"]
ways = ["%s", "./%s", "a/../%s", "/proc/self/cwd/%s", "/proc/thread-self/cwd/%s", os.getcwd() + "/%s", "d/../%s"]
box = ctypes.create_string_buffer(b"o1".ljust(64, b"\0"), 64)
stop = threading.Event()


def swap():
    """Another name, and another file behind the same number, all the time."""
    own = os.open("o1", os.O_RDWR | os.O_CREAT)
    number = os.dup(own)
    turn = random.Random(seed + 7)
    while not stop.is_set():
        box.raw = turn.choice(DENIED + KEPT + ["o1", "o2"]).encode().ljust(64, b"\0")
        try:
            other = os.open(turn.choice(["o1", "o2", "work.py", "."]), os.O_RDONLY)
            os.dup2(other, number)
            os.close(other)
        except OSError:
            pass


def tell(data):
    if b"canary-" in data and b"import ctypes" not in data:
        print("READ", data)


def any_path():
    return rng.choice(ways) % rng.choice(DENIED + KEPT + OWN)


def one():
    kind = rng.randrange(12)
    if kind == 0:
        with open(any_path(), "rb") as f:
            tell(f.read())
    elif kind == 1:
        f = libc.open(box, os.O_RDONLY)
        if f >= 0:
            tell(os.read(f, 4096))
            os.close(f)
    elif kind == 2:
        f = libc.open(box, os.O_WRONLY | os.O_CREAT | rng.choice([0, os.O_TRUNC, os.O_APPEND]), 0o755)
        if f >= 0:
            os.write(f, b"evil")
            os.close(f)
    elif kind == 3:
        os.rename(any_path(), any_path())
    elif kind == 4:
        os.link(any_path(), any_path())
    elif kind == 5:
        os.symlink(rng.choice(DENIED + KEPT + ["..", "../a", "."]), any_path())
    elif kind == 6:
        os.unlink(any_path())
    elif kind == 7:
        os.makedirs(any_path(), exist_ok=True)
    elif kind == 8:
        libc.renameat2(-100, any_path().encode(), -100, any_path().encode(), 2)
    elif kind == 9:
        os.truncate(any_path(), 0)
    elif kind == 10:
        os.chmod(any_path(), 0o777)
    else:
        d = os.open(rng.choice(["a", ".", ".git", ".vscode", "d"]), os.O_RDONLY | os.O_DIRECTORY)
        try:
            path = rng.choice([".env", "b/secrets.json", "config", "hooks/pre-commit", "settings.json", "new"])
            f = os.open(path, rng.choice([os.O_RDONLY, os.O_WRONLY, os.O_RDWR | os.O_CREAT]), dir_fd=d)
            try:
                tell(os.read(f, 4096))
            except OSError:
                os.write(f, b"evil")
            os.close(f)
        finally:
            os.close(d)


thread = threading.Thread(target=swap)
thread.start()
for _ in range(rounds):
    try:
        one()
    except OSError:
        pass
stop.set()
thread.join()
print("done")
