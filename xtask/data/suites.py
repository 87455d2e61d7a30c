"""Other people's tests, bare and inside a sandbox: what passes bare and not inside must be on the list.

Usage: suites.py RINGFENCE KNOWN PROJECT

Runs as the user that it is started by, in PROJECT, an empty directory. KNOWN names the tests that fail inside for a
reason, one in a line: `test  # reason`, as a pattern.
"""

import fnmatch
import pathlib
import subprocess
import sys
import xml.etree.ElementTree as tree

# Quick, and about what a sandbox could get wrong: files, processes, sockets, users, terminals, memory.
MODULES = """
test_os test_posix test_pwd test_grp test_shutil test_tempfile test_pathlib test_glob test_fcntl test_select
test_selectors test_mmap test_pty test_openpty test_fileio test_stat test_posixpath test_genericpath test_getpass
test_platform test_resource test_netrc test_wait3 test_wait4 test_popen test_uuid test_poll test_epoll test_socket
test_tarfile test_zipfile test_dbm test_mailbox test_unicode_file_functions test_httpservers test_ftplib
test_urllib2_localnet test_syslog
""".split()
PATIENCE = 300


def run(argv, directory, output, **more):
    with open(output, "wb") as file:
        try:
            subprocess.run(argv, cwd=directory, stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=PATIENCE, **more)
        except subprocess.TimeoutExpired:
            pass


def python(how, project, name):
    """The tests of one module that passed."""
    directory = project / name
    directory.mkdir(exist_ok=True)
    report = directory / f"{name}.xml"
    report.unlink(missing_ok=True)
    run(how + ["/usr/bin/python3", "-m", "test", "--junit-xml", str(report), name], directory, directory / f"{name}.log")
    if not report.exists():
        return set()
    passed = set()
    for case in tree.parse(report).iter("testcase"):
        name = case.get("name")
        # What has no name is a part of a test that has one.
        if name and not any(child.tag in ("failure", "error", "skipped") for child in case):
            passed.add(name.removeprefix("test."))
    return passed


def matching(excused, test):
    """The lines of the list that name this test."""
    return {pattern for pattern in excused if fnmatch.fnmatchcase(test, pattern)}


def main():
    ringfence, known, project = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    inside = [ringfence, "run", "--no-gate", "--quiet", "--launcher", "native", "--project", str(project), "--"]
    excused = {line.split("#")[0].strip() for line in known.read_text().splitlines()} - {""}
    used, wrong, total = set(), [], 0
    for name in MODULES:
        bare = python([], project, name)
        lost = bare - python(inside, project, name)
        unknown = {test for test in lost if not matching(excused, test)}
        if unknown:
            # A machine that is busy makes tests fail now and then, bare as well.
            again = python([], project, name) - python(inside, project, name)
            for test in sorted(unknown - again):
                print(f"FLAKY, bare or inside: {test}", flush=True)
            lost = (lost - unknown) | (unknown & again)
        total += len(bare)
        for test in sorted(lost):
            known_by = matching(excused, test)
            used |= known_by
            if not known_by:
                wrong.append(test)
        print(f"{name}: {len(bare)} pass bare, {len(lost)} of these not inside", flush=True)
    for line in wrong:
        print(f"not inside: {line}")
    for pattern in sorted(excused - used):
        print(f"note: passes inside, or did not run: {pattern}")
    print(f"test result: {'FAILED' if wrong else 'ok'}. {total - len(wrong)} passed; {len(wrong)} failed")
    sys.exit(bool(wrong))


main()
