//! Git's configuration files, read as git itself reads them, and judged by what they change.

use std::fmt;

/// One `section.subsection.key = value`. Section and key are in small letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub section: String,
    pub subsection: Option<String>,
    pub key: String,
    /// None: the key stands alone, which means true.
    pub value: Option<String>,
}

impl Setting {
    /// Section and key, without the subsection.
    #[must_use]
    pub fn name(&self) -> String {
        format!("{}.{}", self.section, self.key)
    }

    fn value(&self) -> &str {
        self.value.as_deref().unwrap_or("true")
    }
}

/// Why a text is not what git would write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It is not understood.
    Unread,
    /// A key that runs or fetches something, or may do so, is new or has another value.
    Added(String),
    /// A key that somebody set, and that is more than a convenience, would be gone.
    Lost(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unread => f.write_str("it is not understood"),
            Self::Added(key) => write!(f, "{key} can make git run or fetch something"),
            Self::Lost(key) => write!(f, "{key} would be lost"),
        }
    }
}

/// Keys that run nothing, fetch nothing by themselves and redirect nothing. The subsection is left out.
const HARMLESS: &[&str] = &[
    "apply.whitespace",
    "branch.autosetupmerge",
    "branch.autosetuprebase",
    "branch.description",
    "branch.merge",
    "branch.pushremote",
    "branch.rebase",
    "branch.remote",
    "branch.sort",
    "branch.vscode-merge-base",
    "checkout.defaultremote",
    "column.ui",
    "commit.cleanup",
    "commit.status",
    "commit.verbose",
    "core.abbrev",
    "core.autocrlf",
    "core.bare",
    "core.bigfilethreshold",
    "core.checkstat",
    "core.commitgraph",
    "core.compression",
    "core.eol",
    "core.filemode",
    "core.ignorecase",
    "core.logallrefupdates",
    "core.longpaths",
    "core.multipackindex",
    "core.precomposeunicode",
    "core.preloadindex",
    "core.protecthfs",
    "core.protectntfs",
    "core.quotepath",
    "core.safecrlf",
    "core.sharedrepository",
    "core.sparsecheckout",
    "core.sparsecheckoutcone",
    "core.splitindex",
    "core.symlinks",
    "core.trustctime",
    "core.untrackedcache",
    "core.warnambiguousrefs",
    "core.whitespace",
    "diff.algorithm",
    "diff.colormoved",
    "diff.context",
    "diff.ignoresubmodules",
    "diff.indentheuristic",
    "diff.mnemonicprefix",
    "diff.noprefix",
    "diff.renamelimit",
    "diff.renames",
    "diff.statgraphwidth",
    "diff.submodule",
    "feature.manyfiles",
    "fetch.negotiationalgorithm",
    "fetch.output",
    "fetch.parallel",
    "fetch.prune",
    "fetch.prunetags",
    "fetch.unpacklimit",
    "gc.auto",
    "gc.autodetach",
    "grep.column",
    "grep.extendedregexp",
    "grep.fullname",
    "grep.linenumber",
    "grep.patterntype",
    "i18n.commitencoding",
    "i18n.logoutputencoding",
    "index.sparse",
    "index.threads",
    "index.version",
    "init.defaultbranch",
    "lfs.access",
    "lfs.repositoryformatversion",
    "log.abbrevcommit",
    "log.date",
    "log.decorate",
    "log.follow",
    "maintenance.auto",
    "maintenance.strategy",
    "merge.autostash",
    "merge.conflictstyle",
    "merge.directoryrenames",
    "merge.ff",
    "merge.log",
    "merge.renamelimit",
    "merge.renames",
    "merge.stat",
    "merge.verbosity",
    "pack.compression",
    "pack.depth",
    "pack.threads",
    "pack.usesparse",
    "pack.window",
    "pack.windowmemory",
    "pack.writebitmaphashcache",
    "pack.writebitmaplookuptable",
    "pull.ff",
    "pull.rebase",
    "push.autosetupremote",
    "push.default",
    "push.followtags",
    "push.useforceifincludes",
    "rebase.abbreviatecommands",
    "rebase.autosquash",
    "rebase.autostash",
    "rebase.forkpoint",
    "rebase.missingcommitscheck",
    "rebase.rebasemerges",
    "rebase.reschedulefailedexec",
    "rebase.stat",
    "rebase.updaterefs",
    "receive.unpacklimit",
    "remote.fetch",
    "remote.prune",
    "remote.push",
    "remote.pushdefault",
    "remote.pushurl",
    "remote.skipfetchall",
    "remote.tagopt",
    "remote.url",
    "repack.writebitmaps",
    "rerere.autoupdate",
    "rerere.enabled",
    "splitindex.maxpercentchange",
    "splitindex.sharedindexexpire",
    "stash.showincludeuntracked",
    "stash.showpatch",
    "stash.showstat",
    "status.aheadbehind",
    "status.branch",
    "status.relativepaths",
    "status.renames",
    "status.short",
    "status.showstash",
    "status.showuntrackedfiles",
    "status.submodulesummary",
    "submodule.active",
    "submodule.branch",
    "submodule.fetchrecursesubmodules",
    "submodule.ignore",
    "submodule.recurse",
    "submodule.update",
    "submodule.url",
    "tag.sort",
    "transfer.unpacklimit",
    "user.email",
    "user.name",
    "user.useconfigonly",
    "versionsort.suffix",
    "worktree.guessremote",
];

/// Keys without which git does not understand the repository any more. They may come, and do not go.
const STRUCTURE: &[&str] = &[
    "core.repositoryformatversion",
    "extensions.objectformat",
    "extensions.refstorage",
    "extensions.worktreeconfig",
    "extensions.relativeworktrees",
];

/// What `git lfs install` writes, to the letter: the program is looked for on the person's own path.
const LFS: [(&str, &str); 4] = [
    ("clean", "git-lfs clean -- %f"),
    ("smudge", "git-lfs smudge -- %f"),
    ("process", "git-lfs filter-process"),
    ("required", "true"),
];

/// Where a repository's own config is asked to take the place of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A repository's own.
    Repository,
    /// That of a submodule, in its superproject's git directory: it says where its files are.
    Module,
    /// The project's list of submodules.
    Modules,
}

/// Judges the `new` content of a config in the place of `old`; gives what it says about remotes that `old` did not.
pub fn judge(place: Place, old: Option<&str>, new: &str) -> Result<Vec<String>, Refused> {
    let before = parse(old.unwrap_or_default()).ok_or(Refused::Unread)?;
    let after = parse(new).ok_or(Refused::Unread)?;
    let of_note = |setting: &&Setting| !is_harmless(place, setting);
    let kept: Vec<&Setting> = before.iter().filter(of_note).collect();
    let noted: Vec<&Setting> = after.iter().filter(of_note).collect();
    // What somebody else put there stays as it is, in its order: the last of several counts.
    if let Some(added) = noted.iter().find(|setting| !kept.contains(*setting)) {
        return Err(Refused::Added(named(added)));
    }
    if let Some(lost) = kept.iter().find(|setting| !noted.contains(*setting)) {
        return Err(Refused::Lost(named(lost)));
    }
    if kept != noted {
        return Err(Refused::Unread);
    }
    let names = |settings: &[Setting]| settings.iter().map(Setting::name).collect::<Vec<_>>();
    let (had, has) = (names(&before), names(&after));
    if let Some(lost) = STRUCTURE
        .iter()
        .find(|key| had.iter().any(|name| name == *key) && !has.iter().any(|name| name == *key))
    {
        return Err(Refused::Lost((*lost).to_owned()));
    }
    let mut told = Vec::new();
    // What is missing is fetched from a promisor by any command that looks for it.
    let is_partial = before.iter().any(|setting| {
        matches!(
            setting.name().as_str(),
            "extensions.partialclone" | "remote.promisor" | "remote.partialclonefilter"
        )
    });
    for setting in after.iter().filter(|setting| is_remote(setting) && !before.contains(setting)) {
        if is_partial {
            return Err(Refused::Added(named(setting)));
        }
        let subsection = setting.subsection.as_deref().unwrap_or_default();
        let was = before.iter().find(|old| {
            (&old.section, &old.subsection, &old.key) == (&setting.section, &setting.subsection, &setting.key)
        });
        let was = was.map(|old| format!(", was {}", old.value())).unwrap_or_default();
        let what = if setting.section == "branch" { "branch" } else { "remote" };
        told.push(format!("{what} {subsection}: {} is {}{was}", setting.key, setting.value()));
    }
    Ok(told)
}

/// Whether every key of a config that nobody had before is harmless.
#[must_use]
pub fn is_harmless_text(text: &str) -> bool {
    judge(Place::Repository, None, text).is_ok()
}

/// Whether it says where is fetched from or pushed to.
fn is_remote(setting: &Setting) -> bool {
    let value = setting.value();
    match setting.name().as_str() {
        "remote.url" | "remote.pushurl" | "submodule.url" => true,
        "branch.remote" | "branch.pushremote" | "remote.pushdefault" => value.contains([':', '/']),
        _ => false,
    }
}

fn is_harmless(place: Place, setting: &Setting) -> bool {
    let name = setting.name();
    let value = setting.value();
    if place == Place::Modules {
        let is_known = matches!(
            setting.key.as_str(),
            "path" | "url" | "branch" | "shallow" | "ignore" | "fetchrecursesubmodules" | "update"
        );
        return setting.section == "submodule" && is_known && is_plain(setting);
    }
    if setting.section == "filter" && setting.subsection.as_deref() == Some("lfs") {
        return LFS.contains(&(setting.key.as_str(), value));
    }
    // Hints and colours.
    if matches!(setting.section.as_str(), "advice" | "color") {
        return true;
    }
    if name == "core.worktree" {
        return place == Place::Module && is_way_to_submodule(value);
    }
    (HARMLESS.contains(&name.as_str()) || STRUCTURE.contains(&name.as_str())) && is_plain(setting)
}

/// Whether a key that is harmless has a value that is.
fn is_plain(setting: &Setting) -> bool {
    let value = setting.value();
    match setting.key.as_str() {
        // `ext::program` and the like run helpers; what begins like an option may be taken for one.
        "url" | "pushurl" | "remote" | "pushremote" | "pushdefault" | "defaultremote" => {
            !value.contains("::") && !value.starts_with('-')
        }
        "update" => matches!(value, "checkout" | "rebase" | "merge" | "none"),
        _ => true,
    }
}

/// As git writes it for a submodule: up and out of the git directory, then down to its files.
fn is_way_to_submodule(value: &str) -> bool {
    let parts: Vec<&str> = value.split('/').collect();
    let up = parts.iter().take_while(|part| **part == "..").count();
    up >= 3
        && up < parts.len()
        && parts[up..].iter().all(|part| {
            !part.is_empty() && *part != "." && *part != ".." && !part.eq_ignore_ascii_case(".git")
        })
}

fn named(setting: &Setting) -> String {
    match &setting.subsection {
        Some(subsection) => format!("{}.{subsection}.{}", setting.section, setting.key),
        None => setting.name(),
    }
}

/// A file that a config names, in the way of a person who wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The key, as a person would write it.
    pub key: String,
    /// As it is written; relative to the files of the repository, or to the config for one that is included.
    pub path: String,
    pub from: From,
    /// git takes what is there for what it runs, or is told; a program must be there to be run.
    pub must_exist: bool,
}

/// Where a relative path begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    Files,
    Config,
}

/// The files that git would read or run because the config says so.
#[must_use]
pub fn named_files(text: &str) -> Vec<Named> {
    let settings = parse(text).unwrap_or_default();
    let of = |setting: &Setting| -> Vec<Named> {
        let key = named(setting);
        let one = |path: &str, from, must_exist| Named {
            key: key.clone(),
            path: path.to_owned(),
            from,
            must_exist,
        };
        match setting.name().as_str() {
            "include.path" | "includeif.path" => vec![one(setting.value(), From::Config, false)],
            "core.hookspath" | "core.attributesfile" | "init.templatedir" => {
                vec![one(setting.value(), From::Files, false)]
            }
            _ if is_harmless(Place::Repository, setting) => vec![],
            // Any of its words may be the program, or what the program runs.
            _ => {
                let words = setting.value().split(|c: char| c.is_whitespace() || "!\"'`;&|()=".contains(c));
                words.filter(|word| word.contains('/')).map(|word| one(word, From::Files, true)).collect()
            }
        }
    };
    settings.iter().flat_map(of).collect()
}

/// All settings in their order; none when git would not read it, or we do not.
#[must_use]
pub fn parse(text: &str) -> Option<Vec<Setting>> {
    if text.contains('\0') {
        return None;
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n");
    Parser { rest: text.chars().collect(), at: 0 }.all()
}

struct Parser {
    rest: Vec<char>,
    at: usize,
}

impl Parser {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.get(self.at).copied();
        self.at += usize::from(c.is_some());
        c
    }

    fn all(mut self) -> Option<Vec<Setting>> {
        let mut settings = Vec::new();
        let mut section: Option<(String, Option<String>)> = None;
        while let Some(c) = self.next() {
            match c {
                '#' | ';' => self.skip_line(),
                '[' => section = Some(self.header()?),
                c if is_space(c) => {}
                c if c.is_ascii_alphabetic() => {
                    let (section, subsection) = section.clone()?;
                    let (key, value) = self.key(c)?;
                    settings.push(Setting { section, subsection, key, value });
                }
                _ => return None,
            }
        }
        Some(settings)
    }

    fn skip_line(&mut self) {
        while self.next().is_some_and(|c| c != '\n') {}
    }

    fn header(&mut self) -> Option<(String, Option<String>)> {
        let mut name = String::new();
        loop {
            match self.next()? {
                ']' => {
                    // The old form `[section.subsection]`.
                    return Some(match name.split_once('.') {
                        Some((section, subsection)) => (section.to_owned(), Some(subsection.to_owned())),
                        None => (name, None),
                    });
                }
                c if is_space(c) && c != '\n' => return self.subsection(name),
                c if c.is_ascii_alphanumeric() || c == '-' || c == '.' => name.push(c.to_ascii_lowercase()),
                _ => return None,
            }
        }
    }

    fn subsection(&mut self, section: String) -> Option<(String, Option<String>)> {
        // With a dot and a quoted part git joins them; nobody writes that.
        if section.contains('.') {
            return None;
        }
        let mut c = self.next()?;
        while is_space(c) && c != '\n' {
            c = self.next()?;
        }
        if c != '"' {
            return None;
        }
        let mut subsection = String::new();
        loop {
            match self.next()? {
                '\n' => return None,
                '"' => break,
                '\\' => match self.next()? {
                    '\n' => return None,
                    c => subsection.push(c),
                },
                c => subsection.push(c),
            }
        }
        (self.next()? == ']').then_some((section, Some(subsection)))
    }

    fn key(&mut self, first: char) -> Option<(String, Option<String>)> {
        let mut key = String::from(first.to_ascii_lowercase());
        let mut c = self.next();
        while let Some(letter) = c.filter(|c| c.is_ascii_alphanumeric() || *c == '-') {
            key.push(letter.to_ascii_lowercase());
            c = self.next();
        }
        while matches!(c, Some(' ' | '\t')) {
            c = self.next();
        }
        match c {
            None | Some('\n') => Some((key, None)),
            Some('=') => Some((key, Some(self.value()?))),
            Some(_) => None,
        }
    }

    fn value(&mut self) -> Option<String> {
        let (mut value, mut quoted, mut comment) = (String::new(), false, false);
        let mut blanks = String::new();
        loop {
            let c = match self.next() {
                None | Some('\n') if quoted => return None,
                None | Some('\n') => return Some(value),
                Some(c) => c,
            };
            if comment {
                continue;
            }
            if is_space(c) && !quoted {
                if !value.is_empty() {
                    blanks.push(c);
                }
                continue;
            }
            if !quoted && (c == ';' || c == '#') {
                comment = true;
                continue;
            }
            value.push_str(&std::mem::take(&mut blanks));
            match c {
                '\\' => match self.next()? {
                    '\n' => {}
                    't' => value.push('\t'),
                    'b' => value.push('\u{8}'),
                    'n' => value.push('\n'),
                    c @ ('\\' | '"') => value.push(c),
                    _ => return None,
                },
                '"' => quoted = !quoted,
                c => value.push(c),
            }
        }
    }
}

/// As git's `isspace`.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_writes_in_everyday_work_is_harmless() {
        assert!(is_harmless_text(
            "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\
             [remote \"origin\"]\n\turl = https://example.com/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
             [branch \"we\\\"ird]\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\
             # a comment \\\n[user] name = A B\n[core] # nothing\n[user] name = \"x\\\n y\" ; c \\\n[submodule \"a\"]\n\tactive = true\n"
        ));
        assert!(is_harmless_text(
            "[advice]\n\tstatusHints = false\n[color \"diff\"]\n\tnew = red\n[diff]\n\tnoprefix = true\n[rebase]\n\tstat = true\n"
        ));
    }

    #[test]
    fn what_runs_or_redirects_is_not() {
        for text in [
            "[core]\n\tfsmonitor = /tmp/evil\n",
            "[core]\n\thooksPath = hooks\n",
            "[core]\n sshCommand = x\n",
            "[core]\n worktree = /home/u\n",
            "[CORE] FSMONITOR=x\n",
            "[alias]\n st = !evil\n",
            "[include]\n path = ../evil\n",
            "[includeIf \"gitdir:~/\"]\n path = x\n",
            "[filter \"x\"]\n clean = evil\n",
            "[filter \"lfs\"]\n clean = evil\n",
            "[diff \"x\"]\n textconv = evil\n",
            "[credential]\n helper = !evil\n",
            "[remote \"o\"]\n uploadpack = evil\n",
            "[remote \"o\"]\n url = ext::evil\n",
            "[remote \"o\"]\n url = --upload-pack=evil\n",
            "[remote \"o\"]\n url = x\n promisor = true\n",
            "[extensions]\n partialclone = o\n",
            "[remote \"o\"]\n url = x \\\n y\n vcs = evil\n",
            "[url \"ext::evil\"]\n insteadOf = x\n",
            "[submodule \"x\"]\n update = !evil\n",
            "[core.x]\n editor = evil\n",
            "[broken\n",
            "fsmonitor = evil\n",
            "[user]\n name = x \\\n[core] y\n[core] fsmonitor = evil\n",
            "[user]\n name = \"x\\\n\"\n[core] fsmonitor = evil\n",
            "[user] name = x\n[core] fsmonitor = evil\n",
            "[user][core] fsmonitor = evil\n",
            "[remote \"x\\\"]\n[core]\n fsmonitor = evil\n",
            "[user]\n name = x\n[core]\n\tfsmonitor\n",
            "[core] fsmonitor = \"evil\" # ]\n",
            "[core] fsmonitor = \"]\"\n",
            "[user \"x\"] [core] fsmonitor = evil\n",
            "[user]\nname = \"open\n",
            "\u{feff}[core]\nfsmonitor = evil\n",
            "[core]\u{b}fsmonitor = evil\n",
        ] {
            assert!(!is_harmless_text(text), "{text}");
        }
    }

    #[test]
    fn what_was_there_stays_and_only_that() {
        let old = "[core]\n\trepositoryformatversion = 0\n\thooksPath = .githooks\n[alias]\n\tst = !x \"a\\\n\" # c\n[user]\n\tname = a\n";
        let judged = |new: &str| judge(Place::Repository, Some(old), new);
        assert_eq!(judged(&format!("{old}[user]\n\temail = b\n")), Ok(vec![]));
        assert_eq!(judged(&old.replace("name = a", "name = b")), Ok(vec![]));
        assert_eq!(judged(""), Err(Refused::Lost("core.hookspath".to_owned())));
        assert_eq!(
            judged(&old.replace(".githooks", "evil")),
            Err(Refused::Added("core.hookspath".to_owned()))
        );
        assert!(judged(&format!("{old}[core]\n\thooksPath = .githooks\n")).is_err(), "the last one counts");
        let plain = "[core]\n\trepositoryformatversion = 0\n";
        assert_eq!(
            judge(Place::Repository, Some(plain), ""),
            Err(Refused::Lost("core.repositoryformatversion".to_owned()))
        );
    }

    #[test]
    fn a_changed_remote_is_told_and_that_of_a_partial_clone_stays() {
        let old = "[remote \"origin\"]\n\turl = https://a/x\n";
        let new = "[remote \"origin\"]\n\turl = https://b/x\n";
        assert_eq!(
            judge(Place::Repository, Some(old), new),
            Ok(vec!["remote origin: url is https://b/x, was https://a/x".to_owned()])
        );
        let partial = |text: &str| format!("{text}\tpromisor = true\n");
        assert!(judge(Place::Repository, Some(&partial(old)), &partial(new)).is_err());
        assert_eq!(
            judge(Place::Repository, Some(&partial(old)), &format!("{}[user]\n\tname = x\n", partial(old))),
            Ok(vec![])
        );
    }

    #[test]
    fn what_a_config_names_is_known() {
        let text = "[core]\n\thooksPath = .hooks\n\tfsmonitor = \"./tools/watch --x\"\n[include]\n\tpath = ../more\n[alias]\n\tx = \"!sh scripts/a.sh\"\n[user]\n\tname = a/b\n";
        let named: Vec<(String, From, bool)> =
            named_files(text).into_iter().map(|named| (named.path, named.from, named.must_exist)).collect();
        let want = [
            (".hooks", From::Files, false),
            ("./tools/watch", From::Files, true),
            ("../more", From::Config, false),
            ("scripts/a.sh", From::Files, true),
        ];
        assert_eq!(named, want.map(|(path, from, exists)| (path.to_owned(), from, exists)));
    }

    #[test]
    fn submodules_say_where_their_files_are() {
        let module =
            |value: &str| judge(Place::Module, None, &format!("[core]\n\tworktree = {value}\n")).is_ok();
        assert!(module("../../../sub") && module("../../../../a/b"));
        for value in
            ["/home/u", "../../..", "../../../../", "../../../.git/hooks", "../../../a/../../x", "sub"]
        {
            assert!(!module(value), "{value}");
        }
        let listed = "[submodule \"a\"]\n\tpath = a\n\turl = ../a\n";
        assert!(judge(Place::Modules, None, listed).is_ok());
        assert!(judge(Place::Modules, None, "[submodule \"a\"]\n\tupdate = !x\n").is_err());
        assert!(judge(Place::Modules, None, "[core]\n\tbare = true\n").is_err());
    }
}
