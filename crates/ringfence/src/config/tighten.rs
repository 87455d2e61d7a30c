//! A project's own file: it is part of what the fence holds, so it may make the policy tighter and nothing
//! else. Keys that would widen it are left out, by name.

use ringfence_model::PolicyMode;
use ringfence_model::config::{
    ConfigFile, Entry, LimitsSection, LimitsSetting, ModeWord, PolicySection, SafetySection, SessionMode,
    Setting, Text, ToolsSection, WorkspaceAccess,
};

use super::diagnostic::DiagnosticKind;
use super::merge::{Merge, Origin, Target, append, counted, entries, limit_key};

const ONLY_TIGHTER: &str = "ignored: a project's file may only tighten the policy";

/// No command can have this name, because `/dev/null` is not a directory.
const NOTHING: &str = "/dev/null/none";

impl Merge {
    /// Takes from a project's file what tightens; warns about the rest.
    pub(super) fn tighten(&mut self, file: ConfigFile, origin: &Origin<'_>) {
        // Taken apart without `..`, so that a new setting cannot slip through.
        let ConfigFile {
            schema: _,
            enabled,
            provider,
            provider_options,
            profile: _, // decided before any layer is laid; never laxer than the user's
            default_policy,
            os,
            launcher,
            mode,
            sessions,
            scope,
            per_session,
            workspace_access,
            workspace_root,
            working_dir,
            allow_read,
            allow_write,
            deny,
            protect,
            grants,
            never_ask,
            policy,
            allow_network,
            allowed_hosts,
            blocked_hosts,
            network: hosts,
            allowed_ports,
            blocked_ports,
            allowed_commands,
            blocked_commands,
            safety,
            ask,
            validation_strictness,
            timeout,
            limits,
            env_passthrough,
            env_override,
            track_violations,
            max_violations,
            annotate_stderr,
            precision,
            additional_sensitive_files,
            strict_sensitive_files,
            allowed_tmp_paths,
            docker,
            browser,
            tools,
            prune,
            use_kits,
            kits,
            agents: _,
        } = file;
        let o = origin;
        let PolicySection { filesystem, network } = policy.unwrap_or_default();
        let (filesystem, network) = (filesystem.unwrap_or_default(), network.unwrap_or_default());

        // Lists that only ever forbid: they grow.
        self.list(o, "deny", "deny", deny, |c| &mut c.deny);
        self.list(o, "deny", "policy/filesystem/deny", filesystem.deny, |c| &mut c.deny);
        self.list(o, "protect", "protect", protect, |c| &mut c.protect);
        self.list(o, "protect", "policy/filesystem/protect", filesystem.protect, |c| &mut c.protect);
        self.list(o, "neverAsk", "neverAsk", never_ask, |c| &mut c.never_ask);
        self.blocked_hosts(o, "blockedHosts", blocked_hosts);
        self.blocked_hosts(o, "policy/network/blockedHosts", network.blocked_hosts);
        self.list(o, "blockedCommands", "blockedCommands", blocked_commands, |c| &mut c.blocked_commands);
        let names = "additionalSensitiveFiles";
        self.list(o, names, names, additional_sensitive_files, |c| &mut c.additional_sensitive_files);
        if let Some(ports) = blocked_ports {
            self.note(o, "blockedPorts");
            append(&mut self.config.blocked_ports, ports.into_iter().map(std::num::NonZeroU16::get));
        }

        // Lists that only ever allow: they shrink, where there is one.
        self.narrow(o, "allowedCommands", allowed_commands, |c| &mut c.allowed_commands);
        self.narrow_hosts(o, allowed_hosts);
        self.tighten_hosts(o, hosts.unwrap_or_default());

        // Words with an order: the stricter one stays. `max` is the stricter one.
        self.stricter(o, "enabled", enabled, |c| &mut c.enabled, |a, b| a | b);
        self.stricter(o, "defaultPolicy", default_policy, |c| &mut c.default_policy, restricted_wins);
        self.stricter(
            o,
            "validationStrictness",
            validation_strictness,
            |c| &mut c.validation_strictness,
            Ord::max,
        );
        self.stricter(
            o,
            "strictSensitiveFiles",
            strict_sensitive_files,
            |c| &mut c.strict_sensitive_files,
            Ord::max,
        );
        self.stricter(o, "trackViolations", track_violations, |c| &mut c.track_violations, Ord::max);
        self.stricter(o, "precision", precision, |c| &mut c.precision, Ord::max);
        self.stricter(o, "scope", scope, |c| &mut c.scope, Ord::max);
        self.stricter(o, "ask", ask, |c| &mut c.ask, Ord::max);
        let allow_network = allow_network.or(network.allow_network);
        let path = o.first_written(&["allowNetwork", "policy/network/allowNetwork"]);
        self.stricter_at(o, "allowNetwork", path, allow_network, |c| &mut c.allow_network, Ord::min);
        self.tighten_mode(o, mode);
        self.stricter(o, "sessions", sessions.map(Some), |c| &mut c.sessions, stricter_sessions);
        let strictest = if self.config.provider == "local" { stricter_local_access } else { stricter_access };
        self.stricter(
            o,
            "workspaceAccess",
            workspace_access.map(Some),
            |c| &mut c.workspace_access,
            strictest,
        );
        self.tighten_safety(o, safety.unwrap_or_default());
        self.tighten_tools(o, tools.unwrap_or_default());

        let mut section = match limits {
            Setting::Unset => LimitsSection::default(),
            Setting::Null => {
                self.widens(o, "limits");
                LimitsSection::default()
            }
            Setting::Value(LimitsSetting::Values(section)) => *section,
            Setting::Value(LimitsSetting::Preset(preset)) => {
                LimitsSection { preset: Some(preset), ..LimitsSection::default() }
            }
        };
        section.set_timeout(timeout);
        self.tighten_limits(o, &section);

        // A setting that is neither tighter nor wider is the user's alone.
        for (path, present) in [
            ("provider", provider.value().is_some_and(|name| name.as_str() != self.config.provider)),
            ("providerOptions", provider_options.is_some()),
            ("os", os.is_some()),
            ("launcher", !launcher.is_unset()),
            ("perSession", !per_session.is_unset()),
            ("workspaceRoot", !workspace_root.is_unset()),
            ("workingDir", !working_dir.is_unset()),
            ("allowRead", allow_read.is_some_and(|list| !list.is_empty())),
            ("allowWrite", allow_write.is_some_and(|list| !list.is_empty())),
            ("policy/filesystem/allowRead", filesystem.allow_read.is_some_and(|list| !list.is_empty())),
            ("policy/filesystem/allowWrite", filesystem.allow_write.is_some_and(|list| !list.is_empty())),
            ("policy/network/allowedHosts", network.allowed_hosts.is_some_and(|list| !list.is_empty())),
            ("allowedPorts", allowed_ports.is_some_and(|list| !list.is_empty())),
            ("grants", grants.is_some_and(|list| !list.is_empty())),
            ("envPassthrough", env_passthrough.is_some_and(|list| !list.is_empty())),
            ("envOverride", env_override.is_some_and(|map| !map.is_empty())),
            ("maxViolations", !max_violations.is_unset()),
            ("annotateStderr", !annotate_stderr.is_unset()),
            ("allowedTmpPaths", allowed_tmp_paths.is_some_and(|list| !list.is_empty())),
            ("docker", docker.is_some()),
            ("browser", browser.is_some()),
            ("prune", prune.is_some()),
            ("useKits", use_kits.is_some_and(|list| !list.is_empty())),
            ("kits", kits.is_some_and(|map| !map.is_empty())),
        ] {
            if present {
                self.widens(o, path);
            }
        }
    }

    pub(super) fn widens(&mut self, origin: &Origin<'_>, path: &str) {
        self.warnings.push(origin.warn(DiagnosticKind::ProjectWidens, path, ONLY_TIGHTER));
    }

    /// Sets what is at least as strict as what is there.
    pub(super) fn stricter<T: Clone + PartialEq>(
        &mut self,
        origin: &Origin<'_>,
        key: &'static str,
        setting: Setting<T>,
        target: Target<T>,
        strictest: fn(T, T) -> T,
    ) {
        if !setting.is_unset() {
            self.stricter_at(origin, key, &key.replace('.', "/"), setting, target, strictest);
        }
    }

    /// The same, for a setting that is written at another place than its key says.
    fn stricter_at<T: Clone + PartialEq>(
        &mut self,
        origin: &Origin<'_>,
        key: &'static str,
        path: &str,
        setting: Setting<T>,
        target: Target<T>,
        strictest: fn(T, T) -> T,
    ) {
        let value = match setting {
            Setting::Unset => return,
            Setting::Null => return self.widens(origin, path),
            Setting::Value(value) => value,
        };
        let field = target(&mut self.config);
        if *field == value {
            return;
        }
        if strictest(field.clone(), value.clone()) == value {
            *field = value;
            self.origins.insert(key, origin.source(key, path));
        } else {
            self.widens(origin, path);
        }
    }

    /// Keeps of an allow list what the project allows too. An empty one allows everything.
    fn narrow(
        &mut self,
        origin: &Origin<'_>,
        key: &'static str,
        texts: Option<Vec<Text>>,
        target: Target<Vec<Entry>>,
    ) {
        let Some(texts) = texts.filter(|texts| !texts.is_empty()) else { return };
        let wanted = entries(origin, key, key, texts);
        let list = target(&mut self.config);
        if list.is_empty() {
            *list = wanted;
            return;
        }
        let before = std::mem::take(list);
        let more = wanted.iter().any(|entry| !before.iter().any(|known| known.text == entry.text));
        list.extend(before.into_iter().filter(|known| wanted.iter().any(|entry| entry.text == known.text)));
        let emptied = list.is_empty();
        if emptied {
            // Nothing is in both lists, and an empty one would allow everything.
            list.push(Entry::new(NOTHING, origin.source(key, key)));
        }
        if more && !emptied {
            self.widens(origin, key);
        }
    }

    fn tighten_mode(&mut self, origin: &Origin<'_>, word: Setting<ModeWord>) {
        match word {
            Setting::Unset => {}
            Setting::Null => self.widens(origin, "mode"),
            Setting::Value(word) => {
                let mode = word.mode().map_or(Setting::Unset, Setting::Value);
                self.stricter(origin, "mode", mode, |c| &mut c.mode, Ord::max);
                let sessions = word.sessions().map_or(Setting::Unset, |mode| Setting::Value(Some(mode)));
                self.stricter_at(
                    origin,
                    "sessions",
                    "mode",
                    sessions,
                    |c| &mut c.sessions,
                    stricter_sessions,
                );
            }
        }
    }

    fn tighten_safety(&mut self, o: &Origin<'_>, safety: SafetySection) {
        let SafetySection {
            gate,
            mode,
            allowlist,
            denylist,
            tool_allowlist,
            tool_denylist,
            confirm_from,
            code_sandbox,
            approval_timeout_ms,
        } = safety;
        self.stricter(o, "safety.gate", gate, |c| &mut c.safety.gate, Ord::max);
        self.stricter(o, "safety.mode", mode, |c| &mut c.safety.mode, Ord::max);
        let confirm: Target<_> = |c| &mut c.safety.confirm_from;
        self.stricter(o, "safety.confirmFrom", confirm_from, confirm, Ord::max);
        let code: Target<_> = |c| &mut c.safety.code_sandbox;
        self.stricter(o, "safety.codeSandbox", code_sandbox, code, Ord::max);
        self.list(o, "safety.denylist", "safety/denylist", denylist, |c| &mut c.safety.denylist);
        self.list(o, "safety.toolDenylist", "safety/toolDenylist", tool_denylist, |c| {
            &mut c.safety.tool_denylist
        });
        let timeout = approval_timeout_ms.map(std::num::NonZeroU64::get);
        self.stricter(
            o,
            "safety.approvalTimeoutMs",
            timeout,
            |c| &mut c.safety.approval_timeout_ms,
            Ord::min,
        );
        for (path, list) in [("safety/allowlist", allowlist), ("safety/toolAllowlist", tool_allowlist)] {
            if list.is_some_and(|list| !list.is_empty()) {
                self.widens(o, path);
            }
        }
    }

    /// `deny` adds to the list that decides; `allow` cannot be told to be narrower without the groups and
    /// wildcards of the tool policy, so it is the user's alone.
    fn tighten_tools(&mut self, o: &Origin<'_>, tools: ToolsSection) {
        let ToolsSection { allow, deny, max_steps, max_seconds } = tools;
        let (steps, seconds) = (max_steps.map(counted), max_seconds.map(counted));
        self.stricter(o, "tools.maxSteps", steps, |c| &mut c.tools.max_steps, fewer);
        self.stricter(o, "tools.maxSeconds", seconds, |c| &mut c.tools.max_seconds, fewer);
        if allow.is_some() {
            self.widens(o, "tools/allow");
        }
        if let Some(deny) = deny {
            match &mut self.config.tools.deny {
                Some(list) => list.extend(entries(o, "tools.deny", "tools/deny", deny)),
                // The built-in list decides; replacing it could drop some of it.
                None => self.widens(o, "tools/deny"),
            }
        }
    }

    fn tighten_limits(&mut self, origin: &Origin<'_>, section: &LimitsSection) {
        if let Some(preset) = section.preset {
            let tightened = self.config.limits.tightened_by(&preset.limits());
            if tightened != self.config.limits {
                self.config.limits = tightened;
                for (name, ..) in section.rows() {
                    self.origins.insert(limit_key(name), origin.source(limit_key(name), "limits"));
                }
            }
        }
        for (name, setting, target) in section.rows() {
            let own = format!("limits/{name}");
            let path = if name == "timeoutMs" { origin.first_written(&["timeout", &own]) } else { &own };
            let value = match setting {
                Setting::Unset => continue,
                Setting::Null => {
                    self.widens(origin, path);
                    continue;
                }
                Setting::Value(value) => value,
            };
            let limit = target(&mut self.config.limits);
            match *limit {
                Some(known) if known == value => {}
                Some(known) if known < value => self.widens(origin, path),
                Some(_) | None => {
                    *limit = Some(value);
                    self.origins.insert(limit_key(name), origin.source(limit_key(name), path));
                }
            }
        }
    }
}

/// None is no bound at all.
pub(super) fn fewer(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    a.into_iter().chain(b).min()
}

fn restricted_wins(a: PolicyMode, b: PolicyMode) -> PolicyMode {
    match (a, b) {
        (PolicyMode::None, PolicyMode::None) => PolicyMode::None,
        (PolicyMode::Restricted, _) | (_, PolicyMode::Restricted) => PolicyMode::Restricted,
    }
}

/// Unset, the host of the sessions decides: only `all` is surely not laxer.
fn stricter_sessions(a: Option<SessionMode>, b: Option<SessionMode>) -> Option<SessionMode> {
    if a.is_none() && b != Some(SessionMode::All) { a } else { a.max(b) }
}

/// Unset, the local fence works in the project itself.
fn stricter_local_access(a: Option<WorkspaceAccess>, b: Option<WorkspaceAccess>) -> Option<WorkspaceAccess> {
    a.max(b)
}

/// Unset, other fences have a workspace of their own: only that is surely not laxer.
fn stricter_access(a: Option<WorkspaceAccess>, b: Option<WorkspaceAccess>) -> Option<WorkspaceAccess> {
    if a.is_none() && b != Some(WorkspaceAccess::None) { a } else { a.max(b) }
}
