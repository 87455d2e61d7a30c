//! A permanent grant is written to the file, and nothing else changes.

use std::os::unix::fs::PermissionsExt as _;

use super::*;

fn grant(path: &str, access: Access) -> PermanentGrant {
    PermanentGrant { path: path.to_owned(), access, recursive: false }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn the_file_is_made_when_there_is_none_for_its_owner_only() {
    let world = World::new();
    let file = world.user_file();
    assert_eq!(add_permanent_grant(&file, &grant("/data/a", Access::Read)).unwrap(), Change::Written);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&file), mode(file.parent().unwrap())), (0o600, 0o700));
    let loaded = world.load();
    assert_eq!(loaded.warnings, []);
    assert_eq!(loaded.config.grants, [grant("/data/a", Access::Read)]);
    assert!(may(&world.policy(), "/data/a", Access::Read), "and it survives into the next load");
}

#[test]
fn comments_order_and_layout_stay() {
    let text = "// mine\n{\n  \"deny\": [\"/x\"], // why\n  /* last */\n  \"ask\": \"never\",\n}\n";
    let world = World::new().user(text);
    add_permanent_grant(&world.user_file(), &grant("/data/a", Access::Write)).unwrap();
    let now = read(&world.user_file());
    let want = "// mine\n{\n  \"deny\": [\"/x\"], // why\n  /* last */\n  \"ask\": \"never\",\n  \"grants\": [\n    {\n      \"path\": \"/data/a\",\n      \"access\": \"write\",\n      \"recursive\": false\n    }\n  ],\n}\n";
    assert_eq!(now, want);
    assert_eq!(revoke_permanent_grant(&world.user_file(), "/data/a").unwrap(), 1);
    let now = read(&world.user_file());
    assert!(
        now.starts_with("// mine\n{\n  \"deny\": [\"/x\"], // why\n  /* last */\n  \"ask\": \"never\",\n"),
        "{now}"
    );
    assert_eq!(permanent_grants(&world.user_file()).unwrap(), []);
}

#[test]
fn nothing_is_written_twice_and_the_wider_grant_stays() {
    let world = World::new();
    let file = world.user_file();
    assert_eq!(add_permanent_grant(&file, &grant("/a", Access::Read)).unwrap(), Change::Written);
    assert_eq!(add_permanent_grant(&file, &grant("/a", Access::Read)).unwrap(), Change::Unchanged);
    assert_eq!(add_permanent_grant(&file, &grant("/b", Access::Read)).unwrap(), Change::Written);
    assert_eq!(add_permanent_grant(&file, &grant("/a", Access::Write)).unwrap(), Change::Written);
    assert_eq!(add_permanent_grant(&file, &grant("/a", Access::Execute)).unwrap(), Change::Unchanged);
    let grants = permanent_grants(&file).unwrap();
    assert_eq!(grants, [grant("/b", Access::Read), grant("/a", Access::Write)]);
    assert_eq!(revoke_permanent_grant(&file, "/nothing").unwrap(), 0);
    assert_eq!(revoke_permanent_grant(&file, "/a").unwrap(), 1);
    assert_eq!(permanent_grants(&file).unwrap(), [grant("/b", Access::Read)]);
}

#[test]
fn a_file_that_is_not_right_is_not_touched() {
    for text in ["{ not json", r#"{ "unknown": 1 }"#] {
        let world = World::new().user(text);
        let error = add_permanent_grant(&world.user_file(), &grant("/a", Access::Read)).unwrap_err();
        assert!(error.message.contains("sandbox.json:1:"), "{}", error.message);
        assert_eq!(read(&world.user_file()), text);
    }
    let world = World::new();
    assert!(add_permanent_grant(&world.user_file(), &grant("relative", Access::Read)).is_err());
    assert!(!world.user_file().exists());
}

#[test]
fn odd_names_come_back_as_they_were() {
    let world = World::new();
    for path in ["/a \"quoted\"\\x", "/new\nline", "/Zürich/$HOME/*", "~/x"] {
        add_permanent_grant(&world.user_file(), &grant(path, Access::Read)).unwrap();
        assert!(permanent_grants(&world.user_file()).unwrap().contains(&grant(path, Access::Read)), "{path}");
    }
}

#[test]
fn a_link_stays_a_link() {
    let world = World::new();
    let real = world.root.path().join("dotfiles/sandbox.json");
    write(&real, "{}");
    std::fs::create_dir_all(world.ringfence_home()).unwrap();
    std::os::unix::fs::symlink(&real, world.user_file()).unwrap();
    add_permanent_grant(&world.user_file(), &grant("/a", Access::Read)).unwrap();
    assert!(std::fs::symlink_metadata(world.user_file()).unwrap().is_symlink());
    assert_eq!(permanent_grants(&real).unwrap().len(), 1);
}

#[test]
fn writers_at_the_same_time_lose_nothing() {
    let world = World::new();
    let file = world.user_file();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let file = &file;
            scope.spawn(move || {
                for number in 0..10 {
                    let grant = grant(&format!("/{writer}/{number}"), Access::Read);
                    add_permanent_grant(file, &grant).unwrap();
                }
            });
        }
    });
    assert_eq!(permanent_grants(&file).unwrap().len(), 40);
    let left: Vec<_> = std::fs::read_dir(file.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".tmp"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}
