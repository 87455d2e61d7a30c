"""Prints the functions of a program in the order in which it first calls them, one name on each line.

    python3 trace.py PROGRAM ARGUMENT...

Every function begins with a breakpoint, which is taken away when it is met. Processes that it starts are followed until
they execute something else. For x86-64, and programs that are linked to where they run.
"""

import ctypes
import os
import signal
import subprocess
import sys

TRACEME, PEEK, POKE, CONT, GETREGS, SETREGS, DETACH, SETOPTIONS = 0, 1, 4, 7, 12, 13, 17, 0x4200
FORK, VFORK, CLONE, EXEC, EXITKILL = 1 << 1, 1 << 2, 1 << 3, 1 << 4, 1 << 20
EVENT_EXEC = 4
WAIT_FOR_ALL = 0x40000000
BREAKPOINT = 0xCC
REGISTERS, INSTRUCTION = 27, 16

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.restype = ctypes.c_long
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def ptrace(request, process, address=None, data=None):
    ctypes.set_errno(0)
    result = libc.ptrace(request, process, address, data)
    if result == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), "ptrace")
    return result


def readelf(option, program):
    command = ["readelf", "-W", option, program]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def functions(program):
    """The names of all functions by their addresses."""
    found = {}
    for line in readelf("-s", program):
        words = line.split()
        if len(words) == 8 and words[3] in ("FUNC", "IFUNC") and words[6] != "UND" and words[2] != "0":
            found.setdefault(int(words[1], 16), words[7])
    return found


def code(program):
    """Where the code is when it runs, and its bytes."""
    for line in readelf("-l", program):
        words = line.split()
        if words[:1] == ["LOAD"] and "E" in words[6:-1]:
            offset, address, _, size = (int(word, 16) for word in words[1:5])
            with open(program, "rb") as file:
                file.seek(offset)
                return address, bytearray(file.read(size))
    sys.exit(f"{program} has no code")


def trace(argv):
    start, text = code(argv[0])
    names = {at: name for at, name in functions(argv[0]).items() if start <= at < start + len(text)}
    original = {at: text[at - start] for at in names}
    for at in names:
        text[at - start] = BREAKPOINT
    child = os.fork()
    if child == 0:
        ptrace(TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        os.execv(argv[0], argv)
    os.waitpid(child, 0)
    ptrace(SETOPTIONS, child, None, FORK | VFORK | CLONE | EXEC | EXITKILL)
    ptrace(CONT, child)
    met, registers, started = {}, (ctypes.c_ulong * REGISTERS)(), False
    while True:
        try:
            process, status = os.waitpid(-1, WAIT_FOR_ALL)
        except ChildProcessError:
            return met.values()
        if not os.WIFSTOPPED(status):
            continue
        stopped_by, event = os.WSTOPSIG(status), status >> 16
        passed_on = 0
        if event == EVENT_EXEC and started:
            ptrace(DETACH, process)
            continue
        if event == EVENT_EXEC:
            started = True
            with open(f"/proc/{process}/mem", "r+b", buffering=0) as memory:
                memory.seek(start)
                memory.write(text)
        elif stopped_by == signal.SIGTRAP and not event:
            ptrace(GETREGS, process, None, ctypes.addressof(registers))
            at = registers[INSTRUCTION] - 1
            if at in names:
                met.setdefault(at, names[at])
                word = ptrace(PEEK, process, at) & ~0xFF | original[at]
                ptrace(POKE, process, at, word & (1 << 64) - 1)
                registers[INSTRUCTION] = at
                ptrace(SETREGS, process, None, ctypes.addressof(registers))
        elif stopped_by != signal.SIGSTOP and not event:
            passed_on = stopped_by
        ptrace(CONT, process, None, passed_on)


# The program itself may print; the list has a descriptor of its own then.
with os.fdopen(os.dup(1), "w") as out:
    os.dup2(2, 1)
    print("\n".join(trace(sys.argv[1:])), file=out)
