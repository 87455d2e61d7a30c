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
fn commands_are_judged_then_fenced_in() {
    let place = Place::new();
    let guard = place.guard("{}");
    assert!(guard.is_active());
    guard.write_file(Path::new("run.sh"), b"echo $WORD; cat /etc/shadow").unwrap();
    let result = guard.execute("sh", &["run.sh"], None, &[("WORD", "said")]).unwrap();
    assert_eq!(result.stdout, b"said\n");
    assert_ne!(result.exit_code, 0, "the fence holds what the gate let pass");
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
