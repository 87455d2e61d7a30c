//! The policy that follows from a configuration.

use super::*;
use ringfence_model::{DenyReason, Grant, GrantScope, PathOutcome, RuleLayer, RuleSource};

#[test]
fn writable_are_the_project_then_the_list_and_grants_and_tmp_have_their_places() {
    let world = World::new().env("DATA", "/srv/data").env("TMPDIR", "/scratch/tmp").user(
        r#"{ "whitelist": ["~/notes", "$DATA", "/srv/data/", "~/notes"], "blacklist": ["$DATA/secret"] }"#,
    );
    let policy = world.policy();
    let (home, project) = (world.home(), world.project());
    let want = [project.clone(), home.join("notes"), "/srv/data".into()];
    assert_eq!(patterns(&policy.filesystem.allow_write), want.map(|path| path.display().to_string()));
    assert!(patterns(&policy.filesystem.deny).contains(&"/srv/data/secret".to_owned()));
    let private = patterns(&policy.filesystem.private);
    assert_eq!(private[0], home.display().to_string());
    for dir in ["/tmp", "/var/tmp"] {
        assert!(private.contains(&dir.to_owned()), "{dir}");
    }
    let macos = PolicyInputs {
        platform: builtin::Platform::MacOs,
        ..PolicyInputs::new(&project, &home, &home, &world.env)
    };
    let private = patterns(&world.load().policy(&macos).filesystem.private);
    assert!(private.contains(&"/scratch/tmp".to_owned()), "{private:?}");
    let grant = Grant {
        path: home.join(".ssh/config"),
        access: Access::Read,
        scope: GrantScope::Session,
        recursive: false,
    };
    let ringfence_home = world.ringfence_home();
    let inputs = PolicyInputs {
        grants: std::slice::from_ref(&grant),
        ..PolicyInputs::new(&project, &home, &ringfence_home, &world.env)
    };
    let policy = world.load().policy(&inputs);
    assert_eq!(policy.filesystem.grants, [grant]);
    assert!(may(&policy, home.join(".ssh/config"), Access::Read));
    assert!(!may(&policy, home.join(".ssh/id_rsa"), Access::Read));
}

#[test]
fn an_unset_variable_in_a_rule_is_named_and_widens_nothing() {
    let world = World::new()
        .env("EMPTY", "")
        .user("{\n\"whitelist\": [\"$NOPE\", \"/$EMPTY\"],\n\"blacklist\": [\"$NOPE/x\"]\n}");
    let loaded = world.load();
    let unset = DiagnosticKind::UnsetVariable;
    assert_eq!(kinds(&loaded.warnings), [(unset, "allowWrite"), (unset, "allowWrite"), (unset, "deny")]);
    assert_eq!(loaded.warnings[2].line, Some(3));
    let policy = world.policy();
    for path in ["/", "/etc/hosts", "/srv/x"] {
        assert!(!may(&policy, path, Access::Write), "{path}");
    }
    assert!(may(&policy, world.project().join("a"), Access::Write));
}

#[test]
fn a_project_and_whoever_names_a_secret_gets_no_variable() {
    let world = World::new()
        .env("PLACE", "/srv/x")
        .env("DEPLOY_TOKEN", "t0p")
        .user(r#"{ "deny": ["$PLACE", "/a/$DEPLOY_TOKEN"] }"#)
        .project_says(r#"{ "deny": ["/b/$PLACE"], "additionalSensitiveFiles": ["$PLACE/y"] }"#);
    let warnings: Vec<String> = world.load().warnings.iter().map(|warning| warning.message.clone()).collect();
    assert_eq!(
        warnings,
        [
            "$DEPLOY_TOKEN is named like a secret, which no rule may show; `/a/$DEPLOY_TOKEN` stays as written",
            "$PLACE is not expanded in a project's file; `/b/$PLACE` stays as written",
            "$PLACE is not expanded in a project's file; `$PLACE/y` stays as written",
        ]
    );
    let policy = world.policy();
    let rules: Vec<String> = policy.filesystem.deny.iter().map(|rule| rule.path.to_string()).collect();
    assert!(rules.iter().any(|rule| rule == "/srv/x") && rules.iter().all(|rule| !rule.contains("t0p")));
    assert!(rules.iter().any(|rule| rule == "/b/$PLACE"), "{rules:?}");
}

#[test]
fn a_local_policy_never_has_a_network() {
    let policy = World::new().user(r#"{ "allowNetwork": true }"#).policy();
    assert!(!policy.network.allow_network);
}

#[test]
fn a_host_is_reached_where_the_network_is_allowed_and_no_list_says_otherwise() {
    for (settings, host, want) in [
        (r#"{ "allowNetwork": true }"#, "a.example", true),
        (r#"{ "allowNetwork": true, "blockedHosts": [".example"] }"#, "a.example", false),
        (r#"{ "allowNetwork": true, "allowedHosts": [".example"] }"#, "A.Example.", true),
        (r#"{ "allowNetwork": true, "allowedHosts": [".example"] }"#, "a.other", false),
        (r#"{ "allowNetwork": true, "allowedHosts": [".example"] }"#, "a example", false),
        (r#"{ "allowNetwork": false, "allowedHosts": [".example"] }"#, "a.example", true),
        (r#"{ "allowNetwork": false, "allowedHosts": [".example:80"] }"#, "a.example", false),
        (r#"{ "allowNetwork": true, "mode": "strict" }"#, "a.example", false),
    ] {
        let world = World::new().user(&settings.replacen('{', r#"{ "provider": "docker","#, 1));
        assert_eq!(world.policy().network.refusal(host, 443).is_none(), want, "{host} by {settings}");
    }
}

#[test]
fn what_matters_is_denied_and_protected_without_a_file() {
    let world = World::new().env("RINGFENCE_HOME", "/ignored");
    let (policy, home, project) = (world.policy(), world.home(), world.project());
    for path in [
        ".ssh/id_ed25519",
        ".aws/credentials",
        ".gnupg/x",
        ".config/gcloud/x",
        ".azure/x",
        ".docker/config.json",
        ".kube/config",
        ".npmrc",
        ".pypirc",
        ".netrc",
        ".git-credentials",
        ".cargo/credentials.toml",
        ".config/gh/hosts.yml",
        ".config/op/x",
        ".password-store/x",
        ".local/share/keyrings/x",
        ".mozilla/x",
        ".config/google-chrome/x",
        ".config/chromium/x",
        ".ringfence/sandbox.json",
    ] {
        assert!(!may(&policy, home.join(path), Access::Read), "{path}");
    }
    for path in [
        ".env",
        "sub/.env",
        "a/b/.envrc",
        ".env.local",
        ".env.production",
        "x/credentials.json",
        "secrets.json",
        "secrets.yaml",
        ".secrets/x",
    ] {
        assert!(!may(&policy, project.join(path), Access::Read), "{path}");
    }
    for path in [
        ".git/hooks/pre-commit",
        ".git/config",
        "sub/.git/config",
        ".git/config.worktree",
        ".git/info/attributes",
        ".git/modules/a/b/hooks/x",
        ".git/modules/a/config",
        ".husky/pre-push",
        ".vscode/tasks.json",
        ".idea/x",
        ".claude/settings.json",
        ".codex/x",
        ".cursor/rules",
        ".gemini/x",
        ".mcp.json",
        ".ringfence/sandbox.json",
        ".github/workflows/ci.yml",
        "AGENTS.md",
    ] {
        let path = project.join(path);
        assert!(!may(&policy, &path, Access::Write), "{}", path.display());
        assert!(may(&policy, &path, Access::Read), "{}", path.display());
    }
    for path in
        [".bashrc", ".profile", ".zshrc", ".gitconfig", ".config/fish/config.fish", ".config/git/config"]
    {
        let outcome = policy.filesystem.decide(&home.join(path), Access::Write).outcome;
        assert_eq!(outcome, PathOutcome::Denied(DenyReason::Protected), "{path}");
    }
    for path in [".git/index", ".git/objects/ab/cd", "src/main.rs", "package.json", "Makefile", ".envoy"] {
        assert!(may(&policy, project.join(path), Access::Write), "{path}");
    }
    let passwd = policy.filesystem.decide(Path::new("/etc/passwd"), Access::Read).outcome;
    assert_eq!(passwd, PathOutcome::Denied(DenyReason::Denied));
    assert!(!may(&policy, "/srv/x", Access::Read));
}

#[test]
fn ringfences_own_home_is_denied_wherever_it_is() {
    let world = World::new();
    let (home, project) = (world.home(), world.project());
    let moved = project.join("$x*");
    let inputs = PolicyInputs::new(&project, &home, &moved, &world.env);
    let policy = super::super::policy(&SandboxConfig::default(), &inputs);
    assert!(!may(&policy, moved.join("sandbox.json"), Access::Read));
    assert!(!may(&policy, home.join(".ringfence/sandbox.json"), Access::Read));
    assert!(may(&policy, project.join("other"), Access::Write));
}

#[test]
fn every_rule_names_its_source() {
    let world = World::new()
        .user("{\n  \"deny\": [\"/a\"],\n  \"policy\": {\n    \"filesystem\": { \"blacklist\": [\n\"/b\"] } } }")
        .project_says("{ \"protect\": [\"keep\"] }");
    let policy = world.policy();
    let source = |rules: &[ringfence_model::PathRule], path: &str| {
        let rule = rules.iter().find(|rule| rule.path.to_string() == path).unwrap();
        let RuleSource { layer, file, line, key } = rule.source.clone();
        (layer, file, line, key.unwrap())
    };
    let (user, project) = (Some(world.user_file()), Some(world.project_file()));
    let fs = &policy.filesystem;
    assert_eq!(source(&fs.deny, "/a"), (RuleLayer::User, user.clone(), Some(2), "deny".to_owned()));
    assert_eq!(source(&fs.deny, "/b"), (RuleLayer::User, user, Some(5), "deny".to_owned()));
    let keep = world.project().join("keep").display().to_string();
    assert_eq!(source(&fs.protect, &keep), (RuleLayer::Project, project, Some(1), "protect".to_owned()));
    assert_eq!(source(&fs.deny, "/etc/shadow"), (RuleLayer::BuiltIn, None, None, "deny".to_owned()));
    let loaded = world.load_with(vec![], json!({ "allowRead": ["/c"] }));
    let called = source(&world.policy_of(&loaded).filesystem.allow_read, "/c");
    assert_eq!(called, (RuleLayer::Call, None, None, "allowRead".to_owned()));
}

#[test]
fn workspace_access_and_working_dir_have_an_effect() {
    for (access, read, write) in [("rw", true, true), ("ro", true, false)] {
        let world = World::new().user(&format!(r#"{{ "workspaceAccess": "{access}" }}"#));
        let (policy, file) = (world.policy(), world.project().join("a"));
        assert_eq!(may(&policy, &file, Access::Read), read, "{access}");
        assert_eq!(may(&policy, &file, Access::Write), write, "{access}");
    }
    let world = World::new().user(r#"{ "workspaceAccess": "none", "workingDir": "/srv/w" }"#);
    let policy = world.policy();
    let inside = policy.filesystem.decide(&world.project().join("a"), Access::Write).outcome;
    assert_eq!(inside, PathOutcome::Private, "not the host's");
    assert!(may(&policy, "/srv/w/x", Access::Write));
}

fn written(rules: &[ringfence_model::HostRule]) -> Vec<String> {
    rules.iter().map(ToString::to_string).collect()
}

#[test]
fn modes_have_an_effect() {
    let permissive = World::new().user(r#"{ "mode": "permissive", "allowedHosts": ["a"] }"#);
    let (policy, config) = (permissive.policy(), permissive.load().config);
    assert!(may(&policy, "/srv/x", Access::Read) && !may(&policy, "/srv/x", Access::Write));
    assert!(!may(&policy, "/etc/shadow", Access::Read), "what is denied stays denied");
    assert_eq!(config.validation_strictness, Strictness::Minimal);
    let strict = World::new().user(r#"{ "mode": "strict", "allowedHosts": ["a"] }"#);
    assert_eq!(strict.policy().network.allowed_hosts, []);
    assert!(strict.load().config.strict_sensitive_files);
    assert_eq!(strict.load().config.validation_strictness, Strictness::Strict);
    assert_eq!(written(&permissive.policy().network.allowed_hosts), ["a"]);
}

#[test]
fn sensitive_names_are_refused_when_strict_and_protected_otherwise() {
    let text = |strict: bool| {
        format!(
            r#"{{ "strictSensitiveFiles": {strict}, "additionalSensitiveFiles": ["vault/", "a*b", "~/x"] }}"#
        )
    };
    let strict = World::new().user(&text(true));
    let (policy, project) = (strict.policy(), strict.project());
    for path in [".bashrc", "s/.bash_history", "vault/key", "s/vault", "a*b", ".vscode/settings.json"] {
        assert!(!may(&policy, project.join(path), Access::Read), "{path}");
    }
    assert!(!may(&policy, strict.home().join("x"), Access::Read));
    assert!(may(&policy, project.join("axb"), Access::Write), "names are literal");
    assert!(may(&policy, project.join(".git/config"), Access::Read), "git has to read it");
    assert!(!may(&policy, project.join(".git/config"), Access::Write));
    let lax = World::new().user(&text(false));
    let (policy, project) = (lax.policy(), lax.project());
    assert!(may(&policy, project.join("vault/key"), Access::Read));
    assert!(!may(&policy, project.join("vault/key"), Access::Write));
}

#[test]
fn tmp_hosts_ports_and_variables_reach_the_policy() {
    let world = World::new().user(
        r#"{ "allowedTmpPaths": ["/tmp/build/"], "allowedHosts": ["a"], "blockedHosts": ["b"],
             "allowedPorts": [22, 443], "blockedPorts": [8080], "envPassthrough": ["MY_*", "GITHUB_TOKEN"],
             "envOverride": { "A": "1" }, "timeout": "90s" }"#,
    );
    let policy = world.policy();
    assert_eq!(
        policy.filesystem.decide(Path::new("/tmp/build/x"), Access::Write).outcome,
        PathOutcome::Allowed
    );
    assert_eq!(policy.filesystem.decide(Path::new("/tmp/x"), Access::Write).outcome, PathOutcome::Private);
    let network = &policy.network;
    assert_eq!(written(&network.allowed_hosts), ["a"]);
    assert_eq!(written(&network.blocked_hosts), ["b"]);
    assert_eq!(network.allowed_ports, [22, 443]);
    assert_eq!(network.blocked_ports, [23, 25, 110, 143, 445, 3306, 5432, 6379, 27017, 8080]);
    let passes = |name: &str| policy.environment.passes(std::ffi::OsStr::new(name));
    assert!(passes("PATH") && passes("MY_X") && passes("GITHUB_TOKEN"));
    assert!(!passes("MY_API_KEY") && !passes("OPENAI_API_KEY"));
    assert_eq!(policy.environment.set["A"], "1");
    assert_eq!(policy.limits.timeout_ms, Some(90_000));
}

#[test]
fn a_configured_allow_never_beats_a_deny_but_a_permanent_grant_does() {
    let text = r#"{ "allowWrite": ["~/.ssh"], "grants": [
        { "path": "~/.ssh/known_hosts", "access": "read" },
        { "path": "/data/$HOME", "access": "write", "recursive": true },
        { "path": "relative", "access": "write" },
        { "path": "/a/../etc", "access": "write", "recursive": true }
    ] }"#;
    let world = World::new().env("HOME", "/").user(text);
    let (policy, home) = (world.policy(), world.home());
    assert!(!may(&policy, home.join(".ssh/id_rsa"), Access::Read));
    assert!(may(&policy, home.join(".ssh/known_hosts"), Access::Read));
    assert!(!may(&policy, home.join(".ssh/known_hosts"), Access::Write));
    assert!(may(&policy, "/data/$HOME/x", Access::Write), "taken literally");
    assert_eq!(policy.filesystem.grants.len(), 2, "only absolute ones without dots");
}
