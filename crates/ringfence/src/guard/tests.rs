//! Every question of the trait, and every answer as its own kind of error.

use std::ffi::OsString;

use super::*;
use ringfence_model::ErrorKind;
use ringfence_model::config::ConfigFile;

struct Place {
    root: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("home/project")).unwrap();
        Self { root }
    }

    fn guard(&self, settings: &str) -> ProjectGuard {
        let home = self.root.path().join("home");
        let mut environment: crate::config::EnvMap =
            std::env::vars_os().filter(|(name, _)| name == "PATH").collect();
        environment.insert("HOME".into(), OsString::from(&home));
        let settings: ConfigFile = serde_json::from_str(settings).unwrap();
        ProjectGuard::builder()
            .name("test")
            .environment(environment)
            .settings(settings)
            .build(&home.join("project"))
            .unwrap()
    }
}

#[test]
fn questions_are_answered_by_the_configuration() {
    let place = Place::new();
    let guard = place.guard(r#"{ "deny": ["/opt/secret"], "limits": { "maxFileSizeBytes": 10 } }"#);
    assert_eq!(guard.name(), "test");
    assert_eq!(guard.resource_limits().max_file_size_bytes, Some(10));
    guard.check_path(Path::new("new/file"), true).unwrap();
    for (path, write) in [
        ("/opt/secret/x", false),
        ("/etc/hostname", true),
        ("../../../../etc/shadow", false),
        (".env", false),
    ] {
        let error = guard.check_path(Path::new(path), write).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PathAccessDenied, "{path}: {error}");
        assert!(error.to_string().contains(path), "{error}");
    }
    guard.check_command("ls | wc -l").unwrap();
    for command in ["rm -rf /usr", "git push --force", "sudo id"] {
        assert_eq!(
            guard.check_command(command).unwrap_err().kind(),
            ErrorKind::CommandNotAllowed,
            "{command}"
        );
    }
    let error = guard.check_network("example.com", 443).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NetworkAccessDenied);
}

#[test]
fn files_are_read_and_written_where_they_may_be() {
    let place = Place::new();
    let guard = place.guard(r#"{ "limits": { "maxFileSizeBytes": 10 } }"#);
    guard.write_file(Path::new("a"), b"text").unwrap();
    assert_eq!(guard.read_file(Path::new("a")).unwrap(), b"text");
    let error = guard.write_file(Path::new("a"), b"much too much").unwrap_err();
    assert_eq!(
        error,
        GuardError::ResourceLimitExceeded { resource: "bytes of a file".to_owned(), current: 13, limit: 10 }
    );
    // A link leads nowhere else.
    std::os::unix::fs::symlink("/etc/shadow", place.root.path().join("home/project/link")).unwrap();
    assert_eq!(guard.read_file(Path::new("link")).unwrap_err().kind(), ErrorKind::PathAccessDenied);
    assert_eq!(guard.read_file(Path::new("none")).unwrap_err().kind(), ErrorKind::Internal);
}

#[test]
fn nothing_that_is_swapped_meanwhile_is_read_or_written() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let place = Place::new();
    let guard = place.guard("{}");
    let project = place.root.path().join("home/project");
    let secret = place.root.path().join("home/.ssh");
    std::fs::create_dir_all(&secret).unwrap();
    std::fs::write(secret.join("config"), "secret").unwrap();
    std::fs::create_dir(project.join("good")).unwrap();
    std::fs::write(project.join("good/config"), "open").unwrap();
    std::os::unix::fs::symlink(project.join("good"), project.join("way")).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                let target = if round % 2 == 0 { secret.clone() } else { project.join("good") };
                let next = project.join("next");
                let _ = std::fs::remove_file(&next);
                std::os::unix::fs::symlink(target, &next).unwrap();
                std::fs::rename(&next, project.join("way")).unwrap();
            }
        });
        for _ in 0..3000 {
            if let Ok(content) = guard.read_file(Path::new("way/config")) {
                assert_eq!(content, b"open");
            }
            let _ = guard.write_file(Path::new("way/written"), b"x");
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(!secret.join("written").exists());
    std::fs::remove_file(project.join("way")).unwrap();
    std::os::unix::fs::symlink(project.join("good"), project.join("way")).unwrap();
    assert_eq!(guard.read_file(Path::new("way/config")).unwrap(), b"open");
}

#[test]
fn hosts_and_ports_are_answered_one_by_one() {
    let place = Place::new();
    let guard = place.guard(
        // The local fence never gives a network; where somebody else does, the lists decide.
        r#"{ "provider": "docker", "enabled": false, "allowNetwork": true, "allowedHosts": ["example.com", ".rust-lang.org"],
             "blockedHosts": ["evil.rust-lang.org"], "allowedPorts": [443, 8443], "blockedPorts": [8443] }"#,
    );
    guard.check_network("example.com", 443).unwrap();
    guard.check_network("static.rust-lang.org", 443).unwrap();
    for (host, port, reason) in [
        ("evil.rust-lang.org", 443, "blocked by"),
        ("other.example", 443, "not on the list of allowed hosts"),
        ("example.com", 8443, "port 8443 is blocked"),
        ("example.com", 80, "not on the list of allowed ports"),
    ] {
        let error = guard.check_network(host, port).unwrap_err();
        assert!(error.to_string().contains(reason), "{error}");
        assert!(matches!(error, GuardError::NetworkAccessDenied { port: of, .. } if of == port));
    }
}

#[test]
fn commands_are_judged_then_fenced_in() {
    let place = Place::new();
    let guard = place.guard("{}");
    assert!(guard.is_active());
    guard.write_file(Path::new("run.sh"), b"echo $WORD; cat /etc/shadow").unwrap();
    let result = guard.execute("sh", &["run.sh"], None, &[("WORD", "said")]).unwrap();
    assert_eq!(result.stdout, b"said\n");
    assert_ne!(result.exit_code, 0, "the fence holds what the gate let pass");
    let reason = result.blocked_reason.as_deref().unwrap();
    assert!(result.blocked && reason.contains("/etc/shadow: denied by"), "{reason}");
    let quiet = guard.execute("true", &[], None, &[]).unwrap();
    assert_eq!((quiet.blocked, quiet.blocked_reason), (false, None));
    assert_eq!(
        guard.execute("rm", &["-rf", "/usr"], None, &[]).unwrap_err().kind(),
        ErrorKind::CommandNotAllowed
    );
    let outside = guard.execute("true", &[], Some(Path::new("/root")), &[]).unwrap_err();
    assert_eq!(outside.kind(), ErrorKind::PathAccessDenied, "{outside}");
    assert!(guard.current_usage().cpu_ms.is_some());
    let hasty = place.guard(r#"{ "timeout": 1 }"#);
    assert_eq!(hasty.execute("sleep", &["60"], None, &[]).unwrap_err(), GuardError::Timeout(1000));
    let off = place.guard(r#"{ "enabled": false }"#);
    assert!(!off.is_active());
    assert_eq!(off.execute("true", &[], None, &[]).unwrap_err().kind(), ErrorKind::InitializationFailed);
}

/// A file that every Debian has for everybody to read, and that is neither in the project, the home or a place for
/// temporary files, nor where programs are.
const ELSEWHERE: &str = "/var/lib/dpkg/diversions";

#[test]
fn the_root_in_the_read_list_is_everything_but_what_is_denied() {
    let place = Place::new();
    let default = place.guard("{}");
    assert!(default.check_path(Path::new(ELSEWHERE), false).is_err());
    assert_ne!(default.execute("cat", &[ELSEWHERE], None, &[]).unwrap().exit_code, 0);
    let open = place.guard(r#"{ "allowedReadPaths": ["/"] }"#);
    open.check_path(Path::new(ELSEWHERE), false).unwrap();
    assert!(open.check_path(Path::new(ELSEWHERE), true).is_err());
    let read = open.execute("cat", &[ELSEWHERE], None, &[]).unwrap();
    assert_eq!(read.stdout, std::fs::read(ELSEWHERE).unwrap());
    open.write_file(Path::new("run.sh"), b"cat /etc/shadow").unwrap();
    assert!(open.execute("sh", &["run.sh"], None, &[]).unwrap().blocked);
    for guard in [default, open] {
        let both = guard.execute("cp", &["/dev/null", "made"], None, &[]).unwrap();
        assert_eq!(both.exit_code, 0, "{both:?}");
        assert_eq!(guard.execute("cat", &["made"], None, &[]).unwrap().exit_code, 0);
        std::fs::remove_file(place.root.path().join("home/project/made")).unwrap();
    }
}

#[test]
fn what_belongs_to_the_system_alone_is_meant_by_no_rule_about_everything() {
    let place = Place::new();
    let system = ["/etc/passwd", "/etc/shadow", "/etc/sudoers", "/root", "/var/log", "/proc", "/sys", "/dev"];
    for settings in ["{}", r#"{ "mode": "permissive" }"#, r#"{ "allowedReadPaths": ["/", "/var"] }"#] {
        let guard = place.guard(settings);
        for path in system {
            for path in [path.to_owned(), format!("{path}/below")] {
                for write in [false, true] {
                    let answer = guard.check_path(Path::new(&path), write).map_err(|error| error.kind());
                    assert_eq!(answer, Err(ErrorKind::PathAccessDenied), "{settings} {path}");
                }
            }
        }
        assert!(guard.read_file(Path::new("/proc/self/environ")).is_err(), "{settings}");
    }
    let named = place.guard(r#"{ "allowedReadPaths": ["/var/log/mine"] }"#);
    named.check_path(Path::new("/var/log/mine/x"), false).unwrap();
}

#[test]
fn a_directory_to_start_in_must_be_there_and_inside() {
    let place = Place::new();
    let guard = place.guard("{}");
    std::fs::create_dir(place.root.path().join("home/project/sub")).unwrap();
    let seen = guard.execute("pwd", &[], Some(Path::new("sub")), &[]).unwrap();
    assert!(seen.stdout.ends_with(b"/home/project/sub\n"), "{seen:?}");
    guard.write_file(Path::new("file"), b"").unwrap();
    for missing in ["missing", "file"] {
        let error = guard.execute("pwd", &[], Some(Path::new(missing)), &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Validation, "{error}");
    }
    for outside in ["/root", "/opt/none/../../root", ELSEWHERE] {
        let error = guard.execute("pwd", &[], Some(Path::new(outside)), &[]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PathAccessDenied, "{error}");
    }
}
