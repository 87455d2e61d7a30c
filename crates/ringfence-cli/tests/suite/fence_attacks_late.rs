//! Attacks on what came to be after the start: no mount is on it, and nothing but the supervisor keeps it.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::suite::fence_support::{Fenced, Launcher, RACES, for_every_launcher, names, wait_until};
use crate::suite::support::Room;

for_every_launcher! {
    a_late_denied_file_cannot_be_moved_from_under_its_rule,
    a_link_gets_no_second_name_where_none_may_be_made,
    what_is_protected_and_came_later_is_not_removed,
    attributes_of_what_came_later_stay,
    no_race_changes_what_is_protected_and_came_later,
    no_race_lists_a_denied_directory_that_came_later,
    what_was_made_inside_can_be_removed_again,
    what_is_shown_keeps_its_name,
}

const HOOK: &str = "late/.git/hooks/x";

/// What somebody outside makes while the command runs.
fn appear(room: &Room) {
    room.write("late/.git/HEAD", "ref: refs/heads/main\n");
    room.write("late/.git/config", "[core]\n");
    room.write(HOOK, "#!/bin/sh\n");
    room.write("late/.vscode/tasks.json", "{}");
    room.write("late/.secrets/canary", "");
    std::fs::create_dir(room.project.join("late/.git/hooks/empty")).unwrap();
    std::fs::set_permissions(room.project.join(HOOK), PermissionsExt::from_mode(0o644)).unwrap();
}

/// What is there of it.
fn late(room: &Room) -> Vec<PathBuf> {
    let below = |path: PathBuf| path.strip_prefix(&room.project).unwrap().to_owned();
    names(&room.project.join("late")).into_iter().map(below).collect()
}

/// Which of the races were run, and came to nothing that the helper noticed.
#[track_caller]
fn assert_ran(ran: &Fenced, races: &[&str]) {
    let tries: Vec<u64> =
        ran.stdout.lines().filter_map(|line| line.split(' ').next()?.parse().ok()).collect();
    assert!(tries.len() == races.len() && tries.iter().all(|tries| *tries > 20), "{ran:?}");
    assert_eq!(ran.stdout.matches(" 0 leaks").count(), races.len(), "{ran:?}");
}

fn what_is_protected_and_came_later_is_not_removed(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write(
        "attack.py",
        "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
g, h = os.open('late/.git', os.O_DIRECTORY), os.open('late/.git/hooks', os.O_PATH)
v, l = os.open('late/.vscode', os.O_DIRECTORY), os.open('late', os.O_DIRECTORY)
for attempt in [
    lambda: os.unlink('x', dir_fd=h), lambda: os.unlink('hooks/x', dir_fd=g), lambda: os.unlink('config', dir_fd=g),
    lambda: os.unlink('../.git/hooks/x', dir_fd=v), lambda: os.unlink('tasks.json', dir_fd=v),
    lambda: os.rmdir('empty', dir_fd=h), lambda: os.rmdir('late/.git/hooks/empty'),
    lambda: os.rename('x', 'away', src_dir_fd=h, dst_dir_fd=l), lambda: os.rename('hooks', 'away', src_dir_fd=g, dst_dir_fd=g),
    lambda: os.rename('.git', 'away', src_dir_fd=l, dst_dir_fd=l), lambda: os.rename('late/.vscode', 'away'),
    lambda: os.mkdir('other'), lambda: libc.syscall(316, l, b'.git', -100, b'other', 2),
    lambda: libc.syscall(316, -100, b'other', l, b'.git', 2), lambda: os.rmdir('other'),
    lambda: os.unlink('/proc/self/fd/%d/x' % h), lambda: os.fchdir(h) or os.unlink('x'),
]:
    try: attempt()
    except OSError: pass
",
    );
    let text = "python3 attack.py; rm -rf late; find late -delete; rm -rf late/.git/hooks; true";
    let ran = room.fenced_while(|| appear(&room), text);
    let expected = [
        "late/.git",
        "late/.git/config",
        "late/.git/hooks",
        "late/.git/hooks/empty",
        "late/.git/hooks/x",
        "late/.secrets",
        "late/.secrets/canary",
        "late/.vscode",
        "late/.vscode/tasks.json",
    ];
    let there = late(&room);
    let lost: Vec<_> =
        expected.iter().filter(|name| !there.iter().any(|path| path == Path::new(name))).collect();
    assert!(lost.is_empty(), "{lost:?}\n{ran:?}");
    assert!(!room.project.join("other/config").exists() && !room.project.join("away").exists(), "{ran:?}");
    let told = ran.json["violations"].as_array().unwrap();
    for operation in ["remove", "rename"] {
        assert!(told.iter().any(|told| told["operation"] == operation), "{operation}: {ran:?}");
    }
}

fn attributes_of_what_came_later_stay(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write(
        "attack.py",
        "import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
x = 'late/.git/hooks/x'
d, f, p = os.open('late/.git/hooks', os.O_DIRECTORY), os.open(x, os.O_RDONLY), os.open(x, os.O_PATH)
ones = (ctypes.c_long * 4)(1, 0, 1, 0)
class Value(ctypes.Structure): _fields_ = [('value', ctypes.c_uint64), ('size', ctypes.c_uint32), ('flags', ctypes.c_uint32)]
evil = ctypes.create_string_buffer(b'evil')
value = Value(ctypes.addressof(evil), 4, 0)
for attempt in [
    lambda: os.utime(x, (1, 1)), lambda: os.utime('x', (1, 1), dir_fd=d), lambda: os.utime(f, (1, 1)),
    lambda: os.utime('/proc/self/fd/%d' % p, (1, 1)), lambda: libc.syscall(280, p, b'', ones, 0x1000),
    lambda: libc.syscall(280, f, None, ones, 0), lambda: libc.syscall(280, d, b'x', ones, 0x100),
    lambda: libc.syscall(235, x.encode(), ones), lambda: libc.syscall(132, x.encode(), ones), lambda: libc.syscall(261, d, b'x', ones),
    lambda: os.setxattr(x, 'user.evil', b'evil'), lambda: os.setxattr(f, 'user.evil', b'evil'),
    lambda: os.setxattr('/proc/self/fd/%d' % p, 'user.evil', b'evil'), lambda: os.setxattr(x, 'user.evil', b'evil', follow_symlinks=False),
    lambda: libc.syscall(463, d, b'x', 0, b'user.evil', ctypes.byref(value), 16),
    lambda: os.removexattr(x, 'user.kept'), lambda: os.removexattr(f, 'user.kept'),
]:
    try: attempt()
    except OSError: pass
# What is the command's own is changed as ever.
mine = os.open('mine', os.O_RDWR | os.O_CREAT)
os.utime('mine', ns=(5, 1500000007)); os.setxattr('mine', 'user.a', b'b'); os.setxattr(mine, 'user.c', b'd' * 1000); os.removexattr('mine', 'user.a')
os.symlink('mine', 'link'); os.utime('link', (7, 7), follow_symlinks=False); os.chown('mine', -1, os.getgid()); os.fchown(mine, os.getuid(), -1)
other = os.open('other', os.O_RDWR | os.O_CREAT); os.utime(other, (9, 9)); os.utime('.', (11, 11))
print(os.stat('mine').st_mtime_ns, len(os.getxattr('mine', 'user.c')), os.listxattr('mine'), os.lstat('link').st_mtime, os.stat('other').st_mtime)
for attempt in [lambda: os.utime('none', (1, 1)), lambda: os.utime(99, (1, 1)), lambda: os.setxattr('mine', 'evil', b'x'), lambda: os.utime('mine/x', (1, 1)), lambda: os.chown('mine', 12345, -1)]:
    try: attempt()
    except OSError as error: print(error.errno)
",
    );
    let hook = room.project.join(HOOK);
    let kept = |path: &Path| rustix::fs::getxattr(path, "user.kept", &mut [0; 64][..]).is_ok();
    let appear = || {
        appear(&room);
        rustix::fs::setxattr(&hook, "user.kept", b"kept", rustix::fs::XattrFlags::empty()).unwrap();
    };
    let ran = room.fenced_while(appear, "python3 attack.py");
    assert_eq!(ran.stdout, "1500000007 1000 ['user.c'] 7.0 9.0\n2\n9\n95\n20\n1\n", "{ran:?}");
    assert_ne!(hook.metadata().unwrap().mtime(), 1, "{ran:?}");
    assert!(kept(&hook), "{ran:?}");
    assert!(rustix::fs::getxattr(&hook, "user.evil", &mut [0; 64][..]).is_err(), "{ran:?}");
    let told = ran.json["violations"].as_array().unwrap();
    for operation in ["utime", "xattr"] {
        assert!(told.iter().any(|told| told["operation"] == operation), "{operation}: {ran:?}");
    }
}

const CHANGES: [&str; 6] = ["remove", "remove-at", "remove-from-tmp", "utime", "xattr", "bind"];

fn no_race_changes_what_is_protected_and_came_later(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&RACES);
    room.write("okay", "");
    let hook = room.project.join(HOOK);
    let is_changed = || {
        !hook.exists()
            || hook.metadata().unwrap().mtime() == 1
            || rustix::fs::getxattr(&hook, "user.evil", &mut [0; 64][..]).is_ok()
            || room.project.join("late/.git/hooks/y").exists()
    };
    let races = CHANGES.map(|race| format!("./races {race} 0.5; ")).concat();
    let ran = room.fenced_while(|| appear(&room), &races);
    assert!(!is_changed(), "{:?}\n{ran:?}", late(&room));
    assert_ran(&ran, &CHANGES);
    // Outside every one of them is won.
    for race in CHANGES {
        let won = || {
            RACES.unfenced(&[race, "0.1"], &room.project);
            is_changed()
        };
        assert!(wait_until(Duration::from_secs(30), won), "{race}");
        std::fs::remove_dir_all(room.project.join("late")).unwrap();
        appear(&room);
    }
}

const LISTS: [&str; 2] = ["list", "list-from-usr"];

fn no_race_lists_a_denied_directory_that_came_later(launcher: Launcher) {
    let room = Room::on(launcher);
    room.helper(&RACES);
    room.write("open/file", "");
    let races = LISTS.map(|race| format!("./races {race} 1; ")).concat();
    // A mask that it gets at the first look goes when it is replaced.
    let over = std::sync::atomic::AtomicBool::new(false);
    let replace = || {
        wait_until(Duration::from_secs(30), || room.project.join("late").exists());
        while !over.load(std::sync::atomic::Ordering::Relaxed) {
            room.write("new/canary", "");
            let _ = std::fs::rename(room.project.join("late/.secrets"), room.project.join("old"));
            let _ = std::fs::rename(room.project.join("new"), room.project.join("late/.secrets"));
            let _ = std::fs::remove_dir_all(room.project.join("old"));
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    let (ran, unfenced) = std::thread::scope(|scope| {
        scope.spawn(replace);
        let ran = room.fenced_while(|| appear(&room), &races);
        let loses = |race: &&str| {
            let won = || !RACES.unfenced(&[*race, "0.1"], &room.project).contains(" 0 leaks");
            !wait_until(Duration::from_secs(30), won)
        };
        let unfenced: Vec<&str> = LISTS.into_iter().filter(loses).collect();
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        (ran, unfenced)
    });
    assert!(unfenced.is_empty(), "the helper lists nothing outside either: {unfenced:?}");
    assert_ran(&ran, &LISTS);
}

/// By name, by walkers, deeper than any path can say; with the errors that the kernel has for it.
fn what_was_made_inside_can_be_removed_again(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write(
        "work.py",
        "import os, socket
def tell(attempt):
    try: attempt(); print('done')
    except OSError as error: print(error.errno)
os.makedirs('d/e'); open('d/f', 'w').close(); os.symlink('f', 'd/l')
for attempt in [
    lambda: os.unlink('none'), lambda: os.unlink('d'), lambda: os.rmdir('d'), lambda: os.rmdir('d/f'), lambda: os.unlink('d/f/'),
    lambda: os.rmdir('d/e/.'), lambda: os.rmdir('d/e/..'), lambda: os.unlink('d/f/x'), lambda: os.unlink('d/e/'), lambda: os.rmdir('d/e/'),
    lambda: os.unlink('d/l'), lambda: os.unlink('d/f'), lambda: os.rmdir('d'), lambda: os.rmdir('.'),
]: tell(attempt)
os.umask(0o027)
s = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen()
print(oct(os.stat('s').st_mode & 0o777), s.getsockname())
c = socket.socket(socket.AF_UNIX); c.connect('s'); s.accept(); print('accepted')
tell(lambda: socket.socket(socket.AF_UNIX).bind('s')); tell(lambda: socket.socket(socket.AF_UNIX).bind('none/s'))
os.mkdir('sub'); tell(lambda: socket.socket(socket.AF_UNIX).bind(os.path.abspath('sub/t'))); print(os.listdir('sub'))
os.unlink('s')
# Two halves, one of which is moved below the other.
top = os.open('.', os.O_DIRECTORY)
for letter in 'mn':
    for i in range(15): os.mkdir(letter * 200); os.chdir(letter * 200)
    open('file', 'w').close()
    if letter == 'n': os.rename('m' * 200, 'm', src_dir_fd=top)
    os.fchdir(top)
",
    );
    let ran = room.fenced(
        "python3 work.py; rm -rf nnn* sub && echo gone; git init -q made && git -C made -c user.name=x -c user.email=x commit -q --allow-empty -m x; \
         git clone -q made cloned && rm -rf made && rm -r -f cloned && ls; mkdir -p a/b; touch a/b/c; find a -delete; ls",
    );
    let expected = "2\n21\n39\n20\n20\n22\n39\n20\n21\ndone\ndone\ndone\ndone\n22\n\
        0o750 s\naccepted\n98\n2\ndone\n['t']\ngone\nwork.py\nwork.py\n";
    assert_eq!(ran.stdout, expected, "{ran:?}");
    assert_eq!(ran.code, 0, "{ran:?}");
    assert_eq!(names(&room.project), [room.project.join("work.py")]);
}

/// A rule is about a name. Whoever could move what it names would be rid of the rule.
fn what_is_shown_keeps_its_name(launcher: Launcher) {
    let room = Room::on(launcher);
    let shown = room.home.join("a/b");
    std::fs::create_dir_all(&shown).unwrap();
    let denied = shown.join("late");
    let (shown, denied_name) = (shown.to_str().unwrap(), denied.to_str().unwrap());
    let home = room.home.display();
    let text = format!(
        "cd /; mv {home}/a {home}/c; mv {home}/a/b {home}/c; touch {home}/project/ready
        for i in $(seq 1000); do [ -e {home}/project/go ] && break; sleep 0.01; done
        cat {home}/*/b/late {home}/c/late; ls {home}/a/b"
    );
    let ran = std::thread::scope(|scope| {
        scope.spawn(|| {
            wait_until(Duration::from_secs(30), || room.project.join("ready").exists());
            std::fs::write(&denied, "canary").unwrap();
            std::fs::write(room.project.join("go"), "").unwrap();
        });
        room.fenced_with(&["--allow-write", shown, "--deny", denied_name], &text)
    });
    assert!(!ran.stdout.contains("canary"), "{ran:?}");
    assert_eq!((ran.stdout.as_str(), ran.code), ("late\n", 0), "{ran:?}");
}

/// A rule of two names is about where a file lies: its directory stays where it is as soon as there is one.
fn a_late_denied_file_cannot_be_moved_from_under_its_rule(launcher: Launcher) {
    let room = Room::on(launcher);
    room.configure(r#"{"deny": ["**/vault/key", "kept/here.txt"]}"#);
    for directory in ["vault", "kept", "plain", "deep/vault"] {
        std::fs::create_dir_all(room.project.join(directory)).unwrap();
    }
    let come_late = || {
        for file in ["vault/key", "kept/here.txt", "deep/vault/key"] {
            room.write(file, "canary");
        }
    };
    let ran = room.fenced_while(
        come_late,
        "mv vault v; mv kept k; mv -T deep d && mv d/vault d/v; mkdir e; \
         python3 -c 'import ctypes; ctypes.CDLL(None).renameat2(-100, b\"vault\", -100, b\"e\", 2)'
         mv plain p && echo moved; cat v/key k/here.txt d/v/key e/key d/vault/key vault/key kept/here.txt",
    );
    assert_eq!(ran.stdout, "moved\n", "{ran:?}");
    let named = ["vault/key", "kept/here.txt", "d/vault/key"].map(|name| room.project.join(name));
    assert!(named.iter().all(|path| path.exists()), "{ran:?}");
    assert!(ran.resources().contains(&named[0].to_str().unwrap()), "{ran:?}");
}

/// Where no symbolic link may come to be, none that exists elsewhere gets a name either.
fn a_link_gets_no_second_name_where_none_may_be_made(launcher: Launcher) {
    let room = Room::on(launcher);
    let ran = room.fenced(
        "mkdir n evil; ln -s ../evil n/elsewhere; ln -s ../evil n/.git; ln -P n/elsewhere n/.git; \
         ln n/elsewhere n/.git; ls -A n",
    );
    assert_eq!(ran.stdout, "elsewhere\n", "{ran:?}");
}
