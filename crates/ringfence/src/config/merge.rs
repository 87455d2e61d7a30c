//! Laying one layer over what is below it, remembering where every value came from.
//!
//! Settings replace, lists append without duplicates, maps merge by key. Written as null, a setting goes
//! back to its plain default, whatever a preset below says.

use std::collections::BTreeMap;
use std::num::NonZeroU64;
use std::path::Path;

use ringfence_model::config::{
    ConfigFile, Entry, LimitsSection, LimitsSetting, ModeWord, OsSection, PolicySection, PruneSection,
    SafetySection, SandboxConfig, Scope, Setting, Text, ToolsSection,
};
use ringfence_model::{Limits, RuleLayer, RuleSource};

use super::diagnostic::{Diagnostic, DiagnosticKind};
use super::source::Positions;

/// The origin of a layer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin<'a> {
    pub(super) layer: RuleLayer,
    pub(super) file: Option<&'a Path>,
    pub(super) positions: Option<&'a Positions>,
    /// The prefix of the keys: empty, or `agents/name`.
    pub(super) below: &'a str,
    /// The kit, for its layer.
    pub(super) kit: Option<&'a str>,
}

impl<'a> Origin<'a> {
    /// A layer that is not a file.
    pub(super) fn code(layer: RuleLayer) -> Self {
        Self { layer, file: None, positions: None, below: "", kit: None }
    }

    pub(super) fn position(&self, path: &str) -> Option<(u32, u32)> {
        let positions = self.positions?;
        if self.below.is_empty() {
            positions.get(path)
        } else {
            positions.get(&format!("{}/{path}", self.below))
        }
    }

    /// The first of these places where something stands; the first of all when it is not a file.
    pub(super) fn first_written<'p>(&self, paths: &[&'p str]) -> &'p str {
        let written = paths.iter().find(|path| self.position(path).is_some());
        written.or(paths.first()).copied().unwrap_or_default()
    }

    /// The source of `key`, which stands at `path`.
    pub(super) fn source(&self, key: &str, path: &str) -> RuleSource {
        RuleSource {
            layer: self.layer,
            file: self.file.map(Path::to_path_buf),
            line: self.position(path).map(|(line, _)| line),
            key: Some(self.kit.map_or_else(|| key.to_owned(), |kit| format!("{kit}, {key}"))),
        }
    }

    /// A warning about what stands at `path`.
    pub(super) fn warn(&self, kind: DiagnosticKind, path: &str, message: impl Into<String>) -> Diagnostic {
        let below = if self.below.is_empty() { "" } else { "/" };
        let key = format!("{}{below}{path}", self.below).replace('/', ".");
        Diagnostic::warning(kind, message).in_file(self.file).at(self.position(path)).key(key)
    }
}

/// The configuration as far as it is merged.
#[derive(Debug, Default)]
pub(super) struct Merge {
    pub(super) config: SandboxConfig,
    /// By key, with dots; what is not here is built in.
    pub(super) origins: BTreeMap<&'static str, RuleSource>,
    pub(super) warnings: Vec<Diagnostic>,
    /// A project named hosts where everything was allowed; where nothing is, they would be more.
    pub(super) is_of_everything: bool,
}

pub(super) type Target<T> = fn(&mut SandboxConfig) -> &mut T;

impl Merge {
    /// Lays `file` over what is there.
    pub(super) fn apply(&mut self, file: ConfigFile, origin: &Origin<'_>) {
        // Taken apart without `..`, so that a new setting cannot be forgotten here.
        let ConfigFile {
            schema: _,
            enabled,
            provider,
            provider_options,
            profile,
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
            // Kits are layers of their own.
            use_kits: _,
            kits: _,
            agents: _,
        } = file;
        let o = origin;

        self.set(o, "enabled", enabled, |c| &mut c.enabled);
        self.set(o, "provider", provider.map(Text::into_string), |c| &mut c.provider);
        if let Some(options) = provider_options {
            self.note(o, "providerOptions");
            self.config.provider_options.extend(options);
        }
        self.set(o, "profile", profile.map_or(Setting::Unset, Setting::Value), |c| &mut c.profile);
        self.set(o, "defaultPolicy", default_policy, |c| &mut c.default_policy);
        self.os(o, os.unwrap_or_default());
        self.set(o, "launcher", launcher, |c| &mut c.launcher);
        self.mode(o, mode);
        self.set(o, "sessions", optional(sessions), |c| &mut c.sessions);
        let per_session = per_session.map(|own| if own { Scope::Session } else { Scope::Shared });
        let path = o.first_written(&["scope", "perSession"]);
        self.set_at(o, "scope", path, scope.or(per_session), |c| &mut c.scope);
        self.set(o, "workspaceAccess", optional(workspace_access), |c| &mut c.workspace_access);
        self.set(o, "workspaceRoot", optional_text(workspace_root), |c| &mut c.workspace_root);
        self.set(o, "workingDir", optional_text(working_dir), |c| &mut c.working_dir);

        let PolicySection { filesystem, network } = policy.unwrap_or_default();
        let (filesystem, network) = (filesystem.unwrap_or_default(), network.unwrap_or_default());
        self.list(o, "allowRead", "allowRead", allow_read, |c| &mut c.allow_read);
        self.list(o, "allowRead", "policy/filesystem/allowRead", filesystem.allow_read, |c| {
            &mut c.allow_read
        });
        self.list(o, "allowWrite", "allowWrite", allow_write, |c| &mut c.allow_write);
        self.list(o, "allowWrite", "policy/filesystem/allowWrite", filesystem.allow_write, |c| {
            &mut c.allow_write
        });
        self.list(o, "deny", "deny", deny, |c| &mut c.deny);
        self.list(o, "deny", "policy/filesystem/deny", filesystem.deny, |c| &mut c.deny);
        self.list(o, "protect", "protect", protect, |c| &mut c.protect);
        self.list(o, "protect", "policy/filesystem/protect", filesystem.protect, |c| &mut c.protect);
        if let Some(grants) = grants {
            self.note(o, "grants");
            append(&mut self.config.grants, grants);
        }
        self.list(o, "neverAsk", "neverAsk", never_ask, |c| &mut c.never_ask);

        let allow_network = allow_network.or(network.allow_network);
        let path = o.first_written(&["allowNetwork", "policy/network/allowNetwork"]);
        self.set_at(o, "allowNetwork", path, allow_network, |c| &mut c.allow_network);
        self.allowed_hosts(o, "allowedHosts", allowed_hosts);
        self.allowed_hosts(o, "policy/network/allowedHosts", network.allowed_hosts);
        self.blocked_hosts(o, "blockedHosts", blocked_hosts);
        self.blocked_hosts(o, "policy/network/blockedHosts", network.blocked_hosts);
        self.hosts(o, hosts.unwrap_or_default());
        self.ports(o, "allowedPorts", allowed_ports, |c| &mut c.allowed_ports);
        self.ports(o, "blockedPorts", blocked_ports, |c| &mut c.blocked_ports);

        self.list(o, "allowedCommands", "allowedCommands", allowed_commands, |c| &mut c.allowed_commands);
        self.list(o, "blockedCommands", "blockedCommands", blocked_commands, |c| &mut c.blocked_commands);
        self.safety(o, safety.unwrap_or_default());
        self.set(o, "ask", ask, |c| &mut c.ask);
        self.set(o, "validationStrictness", validation_strictness, |c| &mut c.validation_strictness);

        self.limits(o, limits);
        let mut section = LimitsSection::default();
        section.set_timeout(timeout);
        self.limits(o, Setting::Value(LimitsSetting::Values(Box::new(section))));

        self.list(o, "envPassthrough", "envPassthrough", env_passthrough, |c| &mut c.env_passthrough);
        if let Some(variables) = env_override {
            self.note(o, "envOverride");
            self.config.env_override.extend(variables);
        }
        self.set(o, "trackViolations", track_violations, |c| &mut c.track_violations);
        self.set(o, "maxViolations", max_violations, |c| &mut c.max_violations);
        self.set(o, "annotateStderr", annotate_stderr, |c| &mut c.annotate_stderr);
        self.set(o, "precision", precision, |c| &mut c.precision);
        let names = "additionalSensitiveFiles";
        self.list(o, names, names, additional_sensitive_files, |c| &mut c.additional_sensitive_files);
        self.set(o, "strictSensitiveFiles", strict_sensitive_files, |c| &mut c.strict_sensitive_files);
        self.list(o, "allowedTmpPaths", "allowedTmpPaths", allowed_tmp_paths, |c| &mut c.allowed_tmp_paths);

        self.tools(o, tools.unwrap_or_default());
        // One container shared by all agents cannot be shaped by one of them.
        let of_one_agent = o.layer == RuleLayer::Agent && self.config.scope == Scope::Shared;
        for (key, present) in
            [("docker", docker.is_some()), ("browser", browser.is_some()), ("prune", prune.is_some())]
        {
            if present && of_one_agent {
                self.warnings.push(o.warn(
                    DiagnosticKind::Ignored,
                    key,
                    "has no effect: the sandbox is shared by all agents",
                ));
            } else if present {
                self.note(o, key);
            }
        }
        if of_one_agent {
            return;
        }
        if let Some(docker) = docker {
            if o.layer == RuleLayer::User {
                self.config.docker.replace_with(docker);
            } else {
                self.config.docker.add(docker);
            }
        }
        if let Some(browser) = browser {
            self.config.browser.add(browser);
        }
        let PruneSection { idle_hours, max_age_days } = prune.unwrap_or_default();
        self.set(o, "prune.idleHours", idle_hours, |c| &mut c.prune.idle_hours);
        self.set(o, "prune.maxAgeDays", max_age_days, |c| &mut c.prune.max_age_days);
    }

    /// Remembers that `key` was last written here.
    pub(super) fn note(&mut self, origin: &Origin<'_>, key: &'static str) {
        let path = key.replace('.', "/");
        self.origins.insert(key, origin.source(key, &path));
    }

    pub(super) fn set<T: Clone>(
        &mut self,
        origin: &Origin<'_>,
        key: &'static str,
        setting: Setting<T>,
        target: Target<T>,
    ) {
        if !setting.is_unset() {
            self.set_at(origin, key, &key.replace('.', "/"), setting, target);
        }
    }

    /// The same, for a setting that is written at another place than its key says.
    fn set_at<T: Clone>(
        &mut self,
        origin: &Origin<'_>,
        key: &'static str,
        path: &str,
        setting: Setting<T>,
        target: Target<T>,
    ) {
        let value = match setting {
            Setting::Unset => return,
            Setting::Null => target(&mut SandboxConfig::default()).clone(),
            Setting::Value(value) => value,
        };
        *target(&mut self.config) = value;
        self.origins.insert(key, origin.source(key, path));
    }

    pub(super) fn list(
        &mut self,
        origin: &Origin<'_>,
        key: &'static str,
        path: &str,
        texts: Option<Vec<Text>>,
        target: Target<Vec<Entry>>,
    ) {
        let Some(texts) = texts else { return };
        let entries = entries(origin, key, path, texts);
        let list = target(&mut self.config);
        for entry in entries {
            if !list.iter().any(|known| known.text == entry.text) {
                list.push(entry);
            }
        }
    }

    pub(super) fn ports(
        &mut self,
        origin: &Origin<'_>,
        key: &'static str,
        ports: Option<Vec<std::num::NonZeroU16>>,
        target: Target<Vec<u16>>,
    ) {
        let Some(ports) = ports else { return };
        self.note(origin, key);
        append(target(&mut self.config), ports.into_iter().map(std::num::NonZeroU16::get));
    }

    fn mode(&mut self, origin: &Origin<'_>, word: Setting<ModeWord>) {
        match word {
            Setting::Unset => {}
            Setting::Null => self.set(origin, "mode", Setting::Null, |c| &mut c.mode),
            Setting::Value(word) => {
                let mode = word.mode().map_or(Setting::Unset, Setting::Value);
                self.set(origin, "mode", mode, |c| &mut c.mode);
                let sessions = word.sessions().map_or(Setting::Unset, |mode| Setting::Value(Some(mode)));
                self.set_at(origin, "sessions", "mode", sessions, |c| &mut c.sessions);
            }
        }
    }

    fn os(&mut self, o: &Origin<'_>, os: OsSection) {
        let OsSection { mode, seatbelt, bubblewrap } = os;
        self.set(o, "os.mode", mode, |c| &mut c.os.mode);
        let profile = optional_text(seatbelt.unwrap_or_default().profile);
        self.set(o, "os.seatbelt.profile", profile, |c| &mut c.os.seatbelt.profile);
        let bubblewrap = bubblewrap.unwrap_or_default();
        let program = bubblewrap.bwrap_path.map(Text::into_string);
        self.set(o, "os.bubblewrap.bwrapPath", program, |c| &mut c.os.bubblewrap.bwrap_path);
        let unshare = bubblewrap.unshare_net;
        self.set(o, "os.bubblewrap.unshareNet", unshare, |c| &mut c.os.bubblewrap.unshare_net);
    }

    fn safety(&mut self, o: &Origin<'_>, safety: SafetySection) {
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
        self.set(o, "safety.gate", gate, |c| &mut c.safety.gate);
        self.set(o, "safety.mode", mode, |c| &mut c.safety.mode);
        self.set(o, "safety.confirmFrom", confirm_from, |c| &mut c.safety.confirm_from);
        self.set(o, "safety.codeSandbox", code_sandbox, |c| &mut c.safety.code_sandbox);
        let lists: [(_, _, _, Target<Vec<Entry>>); 4] = [
            ("safety.allowlist", "safety/allowlist", allowlist, |c| &mut c.safety.allowlist),
            ("safety.denylist", "safety/denylist", denylist, |c| &mut c.safety.denylist),
            ("safety.toolAllowlist", "safety/toolAllowlist", tool_allowlist, |c| {
                &mut c.safety.tool_allowlist
            }),
            ("safety.toolDenylist", "safety/toolDenylist", tool_denylist, |c| &mut c.safety.tool_denylist),
        ];
        for (key, path, texts, target) in lists {
            self.list(o, key, path, texts, target);
        }
        let timeout = approval_timeout_ms.map(NonZeroU64::get);
        self.set(o, "safety.approvalTimeoutMs", timeout, |c| &mut c.safety.approval_timeout_ms);
    }

    fn limits(&mut self, origin: &Origin<'_>, limits: Setting<LimitsSetting>) {
        let section = match limits {
            Setting::Unset => return,
            Setting::Null => return self.replace_limits(origin, Limits::unlimited()),
            Setting::Value(LimitsSetting::Preset(preset)) => {
                return self.replace_limits(origin, preset.limits());
            }
            Setting::Value(LimitsSetting::Values(section)) => section,
        };
        if let Some(preset) = section.preset {
            self.replace_limits(origin, preset.limits());
        }
        for (name, setting, target) in section.rows() {
            match setting {
                Setting::Unset => continue,
                Setting::Null => *target(&mut self.config.limits) = None,
                Setting::Value(value) => *target(&mut self.config.limits) = Some(value),
            }
            let own = format!("limits/{name}");
            let path = if name == "timeoutMs" { origin.first_written(&["timeout", &own]) } else { &own };
            self.origins.insert(limit_key(name), origin.source(limit_key(name), path));
        }
    }

    fn replace_limits(&mut self, origin: &Origin<'_>, limits: Limits) {
        self.config.limits = limits;
        for (name, ..) in LimitsSection::default().rows() {
            self.origins.insert(limit_key(name), origin.source(limit_key(name), "limits"));
        }
    }

    /// The closest layer that has a list decides.
    fn tools(&mut self, o: &Origin<'_>, tools: ToolsSection) {
        let ToolsSection { allow, deny, max_steps, max_seconds } = tools;
        self.set(o, "tools.maxSteps", max_steps.map(counted), |c| &mut c.tools.max_steps);
        self.set(o, "tools.maxSeconds", max_seconds.map(counted), |c| &mut c.tools.max_seconds);
        if let Some(allow) = allow {
            self.config.tools.allow = Some(entries(o, "tools.allow", "tools/allow", allow));
        }
        if let Some(deny) = deny {
            self.config.tools.deny = Some(entries(o, "tools.deny", "tools/deny", deny));
        }
    }
}

/// A number of something that has no bound without one.
pub(super) fn counted(most: NonZeroU64) -> Option<u64> {
    Some(most.get())
}

/// The texts of a list, each with its own line.
pub(super) fn entries(origin: &Origin<'_>, key: &'static str, path: &str, texts: Vec<Text>) -> Vec<Entry> {
    let source = |(index, text): (usize, Text)| {
        Entry::new(text.into_string(), origin.source(key, &format!("{path}/{index}")))
    };
    texts.into_iter().enumerate().map(source).collect()
}

/// The full key of a limit.
pub(super) fn limit_key(name: &'static str) -> &'static str {
    match name {
        "maxMemoryBytes" => "limits.maxMemoryBytes",
        "maxCpuSeconds" => "limits.maxCpuSeconds",
        "maxOutputBytes" => "limits.maxOutputBytes",
        "maxFileSizeBytes" => "limits.maxFileSizeBytes",
        "maxProcesses" => "limits.maxProcesses",
        "maxOpenFiles" => "limits.maxOpenFiles",
        "maxStackBytes" => "limits.maxStackBytes",
        "maxFileWrites" => "limits.maxFileWrites",
        "maxTotalWriteBytes" => "limits.maxTotalWriteBytes",
        "timeoutMs" => "limits.timeoutMs",
        other => other,
    }
}

/// Appends what is not there yet.
pub(super) fn append<T: PartialEq>(list: &mut Vec<T>, more: impl IntoIterator<Item = T>) {
    for item in more {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

/// For settings without which there is simply none: null is a value like any other.
fn optional<T>(setting: Setting<T>) -> Setting<Option<T>> {
    match setting {
        Setting::Unset => Setting::Unset,
        Setting::Null => Setting::Value(None),
        Setting::Value(value) => Setting::Value(Some(value)),
    }
}

fn optional_text(setting: Setting<Text>) -> Setting<Option<String>> {
    optional(setting.map(Text::into_string))
}
