//! Files that nobody names and that run all the same: settings on which an editor, an agent, a shell or a build tool of the
//! person's acts by itself.
//!
//! Where a person uses them, which is in the project and in whatever was there before the run, making or changing one is a
//! question; where nobody can be asked it is refused. In a tree that was made inside they are the work, and are named at the
//! end. What a person starts by name (`package.json`, `Makefile`, `build.rs`, `conftest.py`) is not here: that is the work.

use ringfence_model::policy;

/// A pattern, who acts on it, and what it makes happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Later {
    pub path: &'static str,
    pub program: &'static str,
    pub reason: &'static str,
}

impl Later {
    /// What a refusal says of the rule.
    pub(super) fn key(&self) -> String {
        format!("{}, by {}: {}", policy::RUNS_LATER, self.program, self.reason)
    }
}

const fn row(path: &'static str, program: &'static str, reason: &'static str) -> Later {
    Later { path, program, reason }
}

/// The table; `docs/runs-later.md` is a copy of it.
pub const RUNS_LATER: &[Later] = &[
    row("**/.githooks", "git", "a usual place of git hooks"),
    row("**/.husky", "git", "git hooks of a project"),
    row("**/.gitmodules", "git", "says what is fetched for submodules"),
    row("**/.gitconfig", "git", "programs that git runs, where it is included"),
    row("**/.pre-commit-config.yaml", "pre-commit", "programs that run at every commit"),
    row("**/lefthook.yml", "lefthook", "programs that run at every commit"),
    row("**/.lefthook.yml", "lefthook", "programs that run at every commit"),
    row("**/.overcommit.yml", "overcommit", "programs that run at every commit"),
    row("**/.hg/hgrc", "Mercurial", "hooks and programs that it runs"),
    row("**/.jj/repo/config.toml", "Jujutsu", "programs that it runs"),
    row("**/.github/hooks", "agents", "programs that agents run"),
    row("**/.github/workflows", "GitHub", "commands that run on servers with the project's secrets"),
    row("**/.vscode", "VS Code", "tasks, and programs that settings name"),
    row("**/*.code-workspace", "VS Code", "tasks, and programs that settings name"),
    row("**/.devcontainer", "VS Code", "commands that run when a container is made"),
    row("**/.devcontainer.json", "VS Code", "commands that run when a container is made"),
    row("**/.idea", "JetBrains IDEs", "run configurations"),
    row("**/.fleet", "JetBrains Fleet", "run configurations"),
    row("**/.zed", "Zed", "tasks, and programs that settings name"),
    row("**/.exrc", "vi, Vim", "commands that run when a file is opened"),
    row("**/.vimrc", "Vim", "commands that run when it starts"),
    row("**/.nvim.lua", "Neovim", "code that runs when a file is opened"),
    row("**/.nvimrc", "Neovim", "commands that run when a file is opened"),
    row("**/.dir-locals.el", "Emacs", "code that runs when a file is opened"),
    row("**/.claude", "Claude Code", "its settings and hooks"),
    row("**/.mcp.json", "agents", "programs that agents start"),
    row("**/CLAUDE.md", "Claude Code", "what it is told at every start"),
    row("**/AGENTS.md", "agents", "what they are told at every start"),
    row("**/.agents", "agents", "their settings and skills"),
    row("**/.codex", "Codex", "its settings"),
    row("**/.cursor", "Cursor", "its settings and rules"),
    row("**/.cursorrules", "Cursor", "what it is told at every start"),
    row("**/.gemini", "Gemini CLI", "its settings"),
    row("**/.windsurf", "Windsurf", "its rules and workflows"),
    row("**/.roo", "Roo Code", "its settings and rules"),
    row("**/.clinerules", "Cline", "what it is told at every start"),
    row("**/.continue", "Continue", "its settings"),
    row("**/.opencode", "opencode", "its settings, commands and plugins"),
    row("**/opencode.json", "opencode", "programs that it starts"),
    row("**/.kiro", "Kiro", "its settings and hooks"),
    row("**/.amazonq", "Amazon Q", "its settings and rules"),
    row("**/.aider.conf.yml", "aider", "commands that it runs"),
    row("**/.ringfence", "ringfence", "its own settings"),
    row("**/.npmrc", "npm", "where packages come from, and programs that it runs"),
    row("**/.yarnrc.yml", "Yarn", "plugins, and the program that it is"),
    row("**/.pnpmfile.cjs", "pnpm", "code that runs at every install"),
    row("**/.cargo/config", "cargo", "programs that it runs in place of the compiler"),
    row("**/.cargo/config.toml", "cargo", "programs that it runs in place of the compiler"),
    row("**/rust-toolchain", "rustup", "the compiler that runs"),
    row("**/rust-toolchain.toml", "rustup", "the compiler that runs"),
    row("**/.bazelrc", "Bazel", "programs that it runs"),
    row("**/mise.toml", "mise", "programs and variables of every command"),
    row("**/.mise.toml", "mise", "programs and variables of every command"),
    row("**/.tool-versions", "asdf, mise", "the programs that run by their usual names"),
    row("**/.mvn", "Maven", "its extensions and options"),
    row("**/.bundle/config", "Bundler", "where gems come from"),
    row("**/.ripgreprc", "ripgrep", "programs that it runs on files"),
    row("**/.gdbinit", "gdb", "commands that run when it starts"),
    row("**/.lldbinit", "lldb", "commands that run when it starts"),
    row("**/.clangd", "clangd", "programs and options that it uses"),
    row("**/.bashrc", "bash", "commands of every shell, where the directory is a home"),
    row("**/.bash_profile", "bash", "commands of every shell, where the directory is a home"),
    row("**/.bash_login", "bash", "commands of every shell, where the directory is a home"),
    row("**/.bash_aliases", "bash", "commands of every shell, where the directory is a home"),
    row("**/.profile", "sh", "commands of every session, where the directory is a home"),
    row("**/.zshrc", "zsh", "commands of every shell, where the directory is a home"),
    row("**/.zshenv", "zsh", "commands of every shell, where the directory is a home"),
    row("**/.zprofile", "zsh", "commands of every shell, where the directory is a home"),
    row("~/.local/bin", "every shell", "programs that run by their usual names"),
    row("~/bin", "every shell", "programs that run by their usual names"),
    row("~/.cargo/bin", "every shell", "programs that run by their usual names"),
    row("~/.cargo/config", "cargo", "programs that it runs in place of the compiler"),
    row("~/.cargo/config.toml", "cargo", "programs that it runs in place of the compiler"),
    row("~/.cargo/env", "login shells", "commands of every session"),
    row("~/go/bin", "every shell", "programs that run by their usual names"),
    row("~/.vimrc", "Vim", "commands that run when it starts"),
    row("~/.vim", "Vim", "commands that run when it starts"),
    row("~/.config/nvim", "Neovim", "commands that run when it starts"),
    row("~/.emacs", "Emacs", "commands that run when it starts"),
    row("~/.emacs.d", "Emacs", "commands that run when it starts"),
    row("~/.config/emacs", "Emacs", "commands that run when it starts"),
    row("~/.config/Code/User", "VS Code", "tasks, and programs that settings name"),
    row("~/.pam_environment", "every session", "variables of every session"),
    row("~/.xprofile", "the desktop", "commands of every session"),
    row("~/.xinitrc", "the desktop", "commands of every session"),
    row("~/.xsession", "the desktop", "commands of every session"),
    row("~/.xsessionrc", "the desktop", "commands of every session"),
    row("~/.local/share/applications", "the desktop", "programs that its menus start"),
    row("~/.local/lib/python*/site-packages/usercustomize.py", "Python", "code that every start of it runs"),
    row("~/.local/lib/python*/site-packages/sitecustomize.py", "Python", "code that every start of it runs"),
    row("~/.local/lib/python*/site-packages/*.pth", "Python", "code that every start of it runs"),
    row("~/.pythonrc", "Python", "code that runs when it starts"),
    row("~/.claude.json", "Claude Code", "programs that it starts"),
    row("~/.tmux.conf", "tmux", "commands that run when it starts"),
    row("~/.config/tmux", "tmux", "commands that run when it starts"),
    row("~/.screenrc", "screen", "commands that run when it starts"),
    row("~/.gdbinit", "gdb", "commands that run when it starts"),
    row("~/.lldbinit", "lldb", "commands that run when it starts"),
    row("~/.psqlrc", "psql", "commands that run when it starts"),
    row("~/.sqliterc", "sqlite3", "commands that run when it starts"),
    row("~/.irbrc", "irb", "code that runs when it starts"),
    row("~/.config/pip", "pip", "where packages come from"),
    row("~/.config/direnv", "direnv", "code that runs on entering directories"),
    row("~/.config/mise", "mise", "programs and variables of every command"),
    row("~/.local/share/mise", "mise", "programs that run by their usual names"),
    row("~/.asdf", "asdf", "programs that run by their usual names"),
    row("~/.nvm", "nvm", "commands of every shell"),
    row("~/.rustup", "rustup", "the compiler that runs"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documented_table_is_this_one() {
        let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/runs-later.md");
        let page = std::fs::read_to_string(page).unwrap();
        let listed: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
        let rows =
            RUNS_LATER.iter().map(|row| format!("| `{}` | {} | {} |", row.path, row.program, row.reason));
        assert_eq!(listed, rows.collect::<Vec<_>>());
    }

    #[test]
    fn every_row_says_who_and_why_and_none_is_there_twice() {
        for (index, row) in RUNS_LATER.iter().enumerate() {
            assert!(
                (row.path.starts_with("**/") || row.path.starts_with("~/"))
                    && !row.program.is_empty()
                    && !row.reason.is_empty(),
                "{row:?}"
            );
            assert!(RUNS_LATER[..index].iter().all(|other| other.path != row.path), "{} twice", row.path);
        }
    }
}
