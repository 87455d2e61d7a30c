//! Writing the server into a client's configuration.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstRootNode};
use ringfence::model::{Error, ErrorKind, Result};
use toml_edit::{Array, DocumentMut, Item, Table, Value};

use crate::args::{Client, InstallMcp};
use crate::places::Places;
use crate::{output, report};

/// The name of the server there.
const NAME: &str = "ringfence";

pub(crate) fn install(args: &InstallMcp) -> Result<ExitCode> {
    let places = Places::find(args.project.as_deref())?;
    let file = file(args.client, &places);
    let before = match std::fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed("read", &file, error)),
    };
    let program = std::env::current_exe().map_err(|error| {
        Error::new(ErrorKind::Internal, "cannot tell where this program is").caused_by(error)
    })?;
    let mut arguments = vec!["mcp".to_owned()];
    if args.project.is_some() {
        arguments.extend(["--project".to_owned(), places.project.to_string_lossy().into_owned()]);
    }
    let after = with_server(args.client, &before, &program.to_string_lossy(), &arguments)
        .map_err(|why| Error::new(ErrorKind::Validation, format!("{} {why}", file.display())).hint(
            "it was not changed; correct it, or add the server by hand as `--print` shows it for an empty file",
        ))?;
    if args.print {
        output::print(&after)?;
    } else if after == before {
        report::say(&format!("{} has it already", file.display()));
    } else {
        replace(&file, &after)?;
        report::say(&format!("written to {}", file.display()));
    }
    Ok(ExitCode::SUCCESS)
}

fn file(client: Client, places: &Places) -> PathBuf {
    let home = &places.home;
    match client {
        Client::ClaudeCode => home.join(".claude.json"),
        Client::Codex => {
            let own = places.env.get(std::ffi::OsStr::new("CODEX_HOME")).filter(|path| !path.is_empty());
            own.map_or_else(|| home.join(".codex"), PathBuf::from).join("config.toml")
        }
        Client::Cursor => home.join(".cursor/mcp.json"),
        Client::Vscode if cfg!(target_os = "macos") => {
            home.join("Library/Application Support/Code/User/mcp.json")
        }
        Client::Vscode => home.join(".config/Code/User/mcp.json"),
        Client::Gemini => home.join(".gemini/settings.json"),
    }
}

/// The client's configuration with the server in it; whatever else is there stays as it is written.
fn with_server(
    client: Client,
    text: &str,
    program: &str,
    arguments: &[String],
) -> std::result::Result<String, String> {
    match client {
        Client::Codex => toml(text, program, arguments),
        Client::Vscode => json(text, "servers", program, arguments),
        Client::ClaudeCode | Client::Cursor | Client::Gemini => json(text, "mcpServers", program, arguments),
    }
}

fn json(text: &str, list: &str, program: &str, arguments: &[String]) -> std::result::Result<String, String> {
    let start = if text.trim().is_empty() { "{}\n" } else { text };
    let root = CstRootNode::parse(start, &ParseOptions::default())
        .map_err(|error| format!("is not JSON: {error}"))?;
    let object = root.object_value().ok_or("is not a JSON object")?;
    let servers = match object.get(list) {
        Some(_) => object.object_value(list).ok_or_else(|| format!("has a `{list}` that is no object"))?,
        None => object.object_value_or_set(list),
    };
    let arguments = arguments.iter().cloned().map(CstInputValue::String).collect();
    let server = CstInputValue::Object(vec![
        ("command".to_owned(), CstInputValue::String(program.to_owned())),
        ("args".to_owned(), CstInputValue::Array(arguments)),
    ]);
    match servers.get(NAME) {
        Some(known) => known.set_value(server),
        None => drop(servers.append(NAME, server)),
    }
    object.ensure_multiline();
    servers.ensure_multiline();
    Ok(root.to_string())
}

fn toml(text: &str, program: &str, arguments: &[String]) -> std::result::Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(|error| format!("is not TOML: {error}"))?;
    let servers = document.entry("mcp_servers").or_insert_with(|| {
        let mut table = Table::new();
        // Only its servers have headings.
        table.set_implicit(true);
        Item::Table(table)
    });
    let servers = servers.as_table_like_mut().ok_or("has an `mcp_servers` that is no table")?;
    let server = servers.entry(NAME).or_insert_with(|| Item::Table(Table::new()));
    let server = server.as_table_like_mut().ok_or("has an `mcp_servers.ringfence` that is no table")?;
    server.insert("command", Item::Value(Value::from(program)));
    server.insert("args", Item::Value(Value::Array(arguments.iter().map(String::as_str).collect::<Array>())));
    Ok(document.to_string())
}

/// In one step, with the rights that the old one had.
fn replace(file: &Path, text: &str) -> Result<()> {
    // A link, as managers of dotfiles make them, stays one.
    let target = file.canonicalize().unwrap_or_else(|_| file.to_path_buf());
    let directory = target.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory).map_err(|error| failed("make", directory, error))?;
    let write = || -> std::io::Result<()> {
        let mut draft = tempfile::NamedTempFile::new_in(directory)?;
        draft.write_all(text.as_bytes())?;
        if let Ok(about) = std::fs::metadata(&target) {
            draft.as_file().set_permissions(about.permissions())?;
        }
        draft.persist(&target).map(drop).map_err(|error| error.error)
    };
    write().map_err(|error| failed("write", &target, error))
}

fn failed(what: &str, path: &Path, error: std::io::Error) -> Error {
    Error::new(ErrorKind::Internal, format!("cannot {what} {}", path.display())).caused_by(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(client: Client, text: &str) -> String {
        with_server(client, text, "/bin/ringfence", &["mcp".to_owned()]).unwrap()
    }

    #[test]
    fn an_empty_configuration_gets_the_server_only() {
        let json: serde_json::Value = serde_json::from_str(&added(Client::ClaudeCode, "")).unwrap();
        let server = serde_json::json!({ "command": "/bin/ringfence", "args": ["mcp"] });
        assert_eq!(json, serde_json::json!({ "mcpServers": { "ringfence": server } }));
        let json: serde_json::Value = serde_json::from_str(&added(Client::Vscode, " \n")).unwrap();
        assert_eq!(json, serde_json::json!({ "servers": { "ringfence": server } }));
        let toml = "[mcp_servers.ringfence]\ncommand = \"/bin/ringfence\"\nargs = [\"mcp\"]\n";
        assert_eq!(added(Client::Codex, ""), toml);
    }

    #[test]
    fn what_is_there_stays_as_it_is_written() {
        let json = "{\n  // mine\n  \"theme\": \"dark\",\n  \"mcpServers\": {\n    \"other\": { \"command\": \"x\" }\n  }\n}\n";
        let after = added(Client::Gemini, json);
        for kept in ["// mine", "\"theme\": \"dark\"", "\"other\": { \"command\": \"x\" }"] {
            assert!(after.contains(kept), "{after}");
        }
        assert_eq!(added(Client::Gemini, &after), after, "a second time changes nothing");
        let toml = "# mine\nmodel = \"m\"\n\n[mcp_servers.other] # theirs\ncommand = \"x\"\n";
        let after = added(Client::Codex, toml);
        assert!(after.starts_with(toml), "{after}");
        assert_eq!(added(Client::Codex, &after), after);
    }

    #[test]
    fn an_older_entry_is_replaced() {
        let old = added(Client::Cursor, "").replace("/bin/ringfence", "/old");
        assert_eq!(added(Client::Cursor, &old).matches("/old").count(), 0);
        let old = added(Client::Codex, "").replace("/bin/ringfence", "/old");
        assert_eq!(added(Client::Codex, &old).matches("/old").count(), 0);
    }

    #[test]
    fn what_cannot_be_read_is_not_changed() {
        for (client, text) in [
            (Client::Cursor, "{"),
            (Client::Cursor, "[]"),
            (Client::Cursor, "{\"mcpServers\": []}"),
            (Client::Codex, "= 1"),
            (Client::Codex, "mcp_servers = 1"),
        ] {
            assert!(with_server(client, text, "p", &[]).is_err(), "{text}");
        }
    }
}
