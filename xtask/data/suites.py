"""Other people's tests, bare and inside a sandbox: what passes bare and not inside must be on the list.

Usage: suites.py RINGFENCE KNOWN PROJECT [PATTERN…]

Runs as the user that it is started by, in PROJECT, which may have the sources of git and bash in `git` and `bash`, and
the table of small programs in `programs`. KNOWN names the tests that fail inside for a reason, one in a line:
`test  # reason`, as a pattern. A pattern such as `git/t1*` chooses what to run instead of the quick part.
"""

import concurrent.futures
import fnmatch
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as tree

# Quick, and about what a sandbox could get wrong: files, processes, sockets, users, terminals, memory.
QUICK = """
python/test_os python/test_posix python/test_pwd python/test_grp python/test_shutil python/test_tempfile
python/test_pathlib python/test_glob python/test_fcntl python/test_select python/test_selectors python/test_mmap
python/test_pty python/test_openpty python/test_fileio python/test_stat python/test_posixpath python/test_genericpath
python/test_getpass python/test_platform python/test_resource python/test_netrc python/test_wait3 python/test_wait4
python/test_popen python/test_uuid python/test_poll python/test_epoll python/test_socket python/test_tarfile
python/test_zipfile python/test_dbm python/test_mailbox python/test_unicode_file_functions python/test_httpservers
python/test_ftplib python/test_urllib2_localnet python/test_syslog
bash/run-[!j]* program/*
git/t0050-* git/t0066-* git/t1007-* git/t1403-* git/t1411-* git/t2008-* git/t2018-* git/t2203-* git/t3040-*
git/t3201-* git/t3403-* git/t3433-* git/t3504-* git/t3505-* git/t5305-* git/t5404-* git/t5519-* git/t6404-*
git/t6411-* git/t6501-* git/t7011-* git/t7421-* git/t7526-* git/t7604-*
""".split()
NO_TESTS = ("run-all", "run-minimal", "run-gprof")
PATIENCE = 300


def run(how, directory, argv, output):
    """The exit status of a program that has so much time; its output is in a file."""
    argv = how + ["env", "-C", str(directory)] + argv
    with open(output, "wb") as file:
        try:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            return None
    return done.returncode


def python(how, directory, name):
    """The tests of one of CPython's modules that passed."""
    report = directory / "report.xml"
    run(how, directory, ["/usr/bin/python3", "-m", "test", "--junit-xml", str(report), name], directory / "log")
    if not report.exists():
        return set()
    passed = set()
    for case in tree.parse(report).iter("testcase"):
        name = case.get("name")
        # What has no name is a part of a test that has one.
        if name and not any(child.tag in ("failure", "error", "skipped") for child in case):
            passed.add(name.removeprefix("test."))
    return passed


def git(how, directory, name):
    """The tests of one of git's scripts that passed, by number."""
    settings = ["GIT_TEST_INSTALLED=/usr/bin", f"TEST_OUTPUT_DIRECTORY={directory}"]
    scripts = directory.parents[1] / "git/t"
    run(how, scripts, settings + ["sh", f"./{name}.sh"], directory / "log")
    lines = (directory / "log").read_text(errors="replace").splitlines()
    found = (re.fullmatch(r"ok (\d+) - (?!.*# (skip|TODO)).*", line) for line in lines)
    return {f"{name}.{match[1]}" for match in found if match}


def bash(how, directory, name):
    """Whether one of bash's tests passed: it prints what differs."""
    tests = directory / "tests"
    shutil.copytree(directory.parents[1] / "bash/tests", tests, symlinks=True)
    settings = ["THIS_SH=/bin/bash", "BUILD_DIR=..", f"BASH_TSTOUT={directory}/out", f"TMPDIR={directory}"]
    settings.append(f"PATH={tests}:{os.environ['PATH']}")
    status = run(how, tests, settings + ["sh", f"./{name}"], directory / "log")
    differs = re.search(rb"^([<>] |\d+(,\d+)?[acd]\d+)", (directory / "log").read_bytes(), re.MULTILINE)
    return {name} if status == 0 and not differs else set()


def program(how, directory, name):
    """Whether a line of the table succeeds."""
    line = programs(directory.parents[1])[name]
    return {name} if run(how, directory, ["sh", "-euc", line], directory / "log") == 0 else set()


def programs(project):
    """The table: a name, then what the shell runs, in lines that are set in."""
    table, name = {}, None
    for line in (project / "programs").read_text().splitlines():
        if line.startswith(" "):
            table[name] += line.strip() + "\n"
        elif line and not line.startswith("#"):
            name = line
            table[name] = ""
    return table


def chosen(project, patterns):
    """What to run: pairs of a suite and a name."""
    modules = importlib.util.find_spec("test").submodule_search_locations[0]
    there = [(python, path.stem) for path in pathlib.Path(modules).glob("test_*")]
    there += [(git, path.stem) for path in (project / "git/t").glob("t[0-9]*.sh")]
    there += [(bash, path.name) for path in (project / "bash/tests").glob("run-*") if path.name not in NO_TESTS]
    there += [(program, name) for name in programs(project)]
    wanted = [(suite, name) for suite, name in there if matching(patterns, f"{suite.__name__}/{name}")]
    return sorted(wanted, key=lambda unit: (unit[0].__name__, unit[1]))


def compare(inside, project, suite, name):
    """What passes bare, and what of it does not inside."""
    def passed(how, where):
        directory = project / "results" / re.sub(r"[^\w.]+", "-", f"{name} {where}")
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir(parents=True)
        try:
            return suite(how, directory, name)
        finally:
            for path in directory.iterdir():
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)

    bare = passed([], "bare")
    return bare, bare - passed(inside, "inside")


def matching(excused, test):
    """The lines of the list that name this test."""
    return {pattern for pattern in excused if fnmatch.fnmatchcase(test, pattern)}


def main():
    ringfence, known, project = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    inside = [ringfence, "run", "--no-gate", "--launcher", "native", "--project", str(project), "--"]
    excused = {line.split("#")[0].strip() for line in known.read_text().splitlines()} - {""}
    used, wrong, sums = set(), [], {}
    (project / "results").mkdir(exist_ok=True)

    def judge(unit):
        suite, name = unit
        bare, lost = compare(inside, project, suite, name)
        return suite, name, bare, lost

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for suite, name, bare, lost in pool.map(judge, chosen(project, sys.argv[4:] or QUICK)):
            unknown = {test for test in lost if not matching(excused, test)}
            if unknown:
                # A machine that is busy makes tests fail now and then, bare as well.
                again = compare(inside, project, suite, name)[1]
                for test in sorted(unknown - again):
                    print(f"FLAKY, bare or inside: {test}", flush=True)
                lost = (lost - unknown) | (unknown & again)
            for test in sorted(lost):
                known_by = matching(excused, test)
                used |= known_by
                if not known_by:
                    wrong.append(test)
            print(f"{name}: {len(bare)} pass bare, {len(lost)} of these not inside", flush=True)
            before = sums.get(suite.__name__, (0, 0))
            sums[suite.__name__] = (before[0] + len(bare), before[1] + len(lost))
    for line in wrong:
        print(f"not inside: {line}")
    for pattern in sorted(excused - used):
        print(f"note: passes inside, or did not run: {pattern}")
    for suite, (bare, lost) in sums.items():
        print(f"{suite}: {bare} pass bare, {lost} of these not inside")
    total = sum(bare for bare, _ in sums.values())
    print(f"test result: {'FAILED' if wrong else 'ok'}. {total - len(wrong)} passed; {len(wrong)} failed")
    sys.exit(bool(wrong))


main()
