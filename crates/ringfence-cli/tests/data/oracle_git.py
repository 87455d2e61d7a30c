"""Random operations on names that git knows, with a canary in everything that can run or fetch."""
import ctypes, os, random, shutil, subprocess, sys

seed, rounds = int(sys.argv[1]), int(sys.argv[2])
rng = random.Random(seed)
RUN = "touch $RAN; true"
CONFIGS = [
    "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"%s\"\n" % RUN,
    "[core]\n\trepositoryformatversion = 0\n\tworktree = /tmp\n\tfsmonitor = \"%s\"\n" % RUN,
    "[core]\n\trepositoryformatversion = 0\n\thooksPath = ../hooks\n[core] fsmonitor = \"%s\"\n" % RUN,
    "[filter \"x\"]\n\tclean = %s\n\tsmudge = %s\n\tprocess = %s\n[diff \"x\"]\n\ttextconv = %s\n\tcommand = %s\n[diff]\n\texternal = %s\n"
    % tuple('"%s"' % RUN for _ in range(6)),
    "[include]\n\tpath = ../evil\n[alias]\n\tstatus = \"!%s\"\n" % RUN,
    "[extensions]\n\tpartialClone = o\n[protocol \"ext\"]\n\tallow = always\n[remote \"o\"]\n\turl = \"ext::sh -c 'touch $RAN'\"\n\tpromisor = true\n\tfetch = +refs/heads/*:refs/remotes/o/*\n",
    "[remote \"o\"]\n\turl = ../x\n\tuploadpack = \"%s\"\n\tfetch = +refs/heads/*:refs/remotes/o/*\n[core]\n\tsshCommand = \"%s\"\n\tpager = \"%s\"\n" % (RUN, RUN, RUN),
    "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
]
HOOK = "#!/bin/sh\ntouch $RAN\n"
HOOKS = ["post-index-change", "reference-transaction", "pre-commit", "fsmonitor-watchman", "post-checkout"]
DIRS = ["n", "s", "e", "w", "x.git", "u"]
INSIDE = [".git", ".git/x", ".git/modules", ".git/modules/m", ".git/worktrees", ".git/worktrees/w", ".git/objects/o", ".git/refs/r",
          ".git/rebase-merge", "sub", "sub/.git", ".GIT", "hooks", "info"]
NAMES = ["config", "config.lock", "config.worktree", "HEAD", "HEAD.lock", "commondir", "gitdir", "objects", "refs", "hooks", "info", "index",
         "packed-refs", ".git", "modules", "worktrees", "attributes", "alias", "Config", "evil", "hoo\u212as", "c"]
libc = ctypes.CDLL(None, use_errno=True)


def directory():
    base = rng.choice(DIRS + [".", ".", "."])
    return os.path.join(base, rng.choice(INSIDE)) if rng.random() < 0.6 else base


def name():
    return os.path.join(directory(), rng.choice(NAMES + ["hooks/" + rng.choice(HOOKS), "info/attributes"]))


def content():
    where = rng.choice(DIRS)
    return rng.choice(CONFIGS + [HOOK, "* filter=x diff=x\n", "ref: refs/heads/main\n", "../%s\n" % where, "../../%s\n" % where,
                                 "gitdir: ../%s\n" % where, "gitdir: ../%s/.git/x\n" % where, "gitdir: .git/modules/m\n", "gitdir: ../.git/objects/o\n"])


def right(path):
    """What belongs there, so that the work often comes to something."""
    last, where = os.path.basename(path), rng.choice(DIRS)
    if last.startswith("config") or last == "evil":
        return rng.choice(CONFIGS)
    if last in HOOKS:
        return HOOK
    return {"HEAD": "ref: refs/heads/main\n", "commondir": rng.choice(["../%s\n" % where, "../../%s\n" % where, "../..\n"]),
            "attributes": "* filter=x diff=x\n", ".git": "gitdir: ../%s\n" % rng.choice([where, where + "/.git", ".git/modules/m", ".git/worktrees/w"])}.get(last, "x\n")


def write(path, text):
    how = rng.random()
    if how < 0.7:
        with open(path, "w") as f:
            f.write(text)
    elif how < 0.8:
        with open(path, "a") as f:
            f.write(text)
    else:
        f = os.open(os.path.dirname(path) or ".", os.O_TMPFILE | os.O_RDWR, 0o755)
        os.write(f, text.encode())
        os.link("/proc/self/fd/%d" % f, path, src_dir_fd=f)
    if os.path.basename(path) in HOOKS:
        os.chmod(path, 0o755)


def whole(path):
    """A repository, in random order."""
    os.makedirs(path, exist_ok=True)
    steps = ["objects", "refs", "HEAD", "config", "hooks"]
    rng.shuffle(steps)
    for step in steps:
        there = os.path.join(path, step)
        try:
            if step in ("objects", "refs"):
                os.makedirs(there, exist_ok=True)
            elif step == "hooks":
                os.makedirs(there, exist_ok=True)
                write(os.path.join(there, rng.choice(HOOKS)), HOOK)
            else:
                write(there, right(there))
        except OSError:
            pass


held = []


def one():
    kind = rng.randrange(16)
    if kind == 0:
        os.makedirs(directory(), exist_ok=True)
    elif kind in (1, 2, 3):
        path = name()
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write(path, right(path) if rng.random() < 0.8 else content())
    elif kind in (4, 5):
        os.rename(rng.choice([directory, name])(), rng.choice([directory, name])())
    elif kind == 6:
        os.link(name(), name())
    elif kind == 7:
        os.symlink(rng.choice(["../e", "e", "../../e/config", "../hooks", "/tmp"]), name())
    elif kind == 8:
        libc.renameat2(-100, name().encode(), -100, name().encode(), 2)
    elif kind == 9:
        libc.renameat2(-100, directory().encode(), -100, directory().encode(), 2)
    elif kind == 10:
        path = rng.choice([directory, name])()
        shutil.rmtree(path) if os.path.isdir(path) and rng.random() < 0.3 and path not in (".", ".git") else os.unlink(path)
    elif kind == 11:
        os.chmod(directory(), rng.choice([0o311, 0o755, 0o700, 0o111]))
    elif kind == 12:
        held.append(os.open(name(), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o755))
    elif kind == 13:
        for f in held[-3:]:
            os.write(f, rng.choice(CONFIGS).encode())
    elif kind == 14:
        whole(rng.choice([directory(), rng.choice(DIRS)]))
    else:
        where = rng.choice(DIRS + ["."])
        git = rng.choice([["init", "-q", where], ["init", "-q", "--bare", where], ["-C", where, "config", "core.fsmonitor", RUN], ["clone", "-q", ".", where],
                          ["worktree", "add", "-q", "-f", where], ["-C", where, "config", "user.name", "x"], ["-C", where, "remote", "add", "o", "ext::sh -c touch% $RAN"]])
        subprocess.run(["git", "-c", "safe.directory=*"] + git, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, timeout=60)


for _ in range(rounds):
    try:
        one()
    except (OSError, shutil.Error, subprocess.SubprocessError, ValueError):
        pass
print("done")
