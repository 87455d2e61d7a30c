//! Files of the workspace, and what the ledger has of this session.

use ringfence::ledger::{ExecutionFilter, Ledger};
use ringfence::model::ErrorKind;
use rmcp::ErrorData;
use rmcp::model::{ReadResourceResult, Resource, ResourceContents, ResourceTemplate};
use serde_json::json;

use crate::session::{Opened, Session};

/// The commands of this session.
const LEDGER: &str = "ringfence://session/ledger";
/// More files than that are found with `list`.
const MOST_FILES: usize = 200;

pub(crate) fn list(opened: &Opened) -> Vec<Resource> {
    let ledger = Resource::new(LEDGER, "ledger")
        .with_title("What ran in this session")
        .with_mime_type("application/json");
    let mut found = vec![ledger];
    for directory in &opened.directories {
        let listing = opened.tools.call("list", &json!({ "path": directory }));
        let entries =
            listing.data.get("entries").and_then(|entries| entries.as_array()).into_iter().flatten();
        let files =
            entries.filter(|entry| entry["kind"] == "file").filter_map(|entry| entry["path"].as_str());
        found.extend(files.take(MOST_FILES).filter_map(|path| {
            let uri = url::Url::from_file_path(opened.tools.workspace().join(path)).ok()?;
            Some(Resource::new(uri, path))
        }));
    }
    found
}

/// One for each root.
pub(crate) fn templates(opened: &Opened) -> Vec<ResourceTemplate> {
    let bases =
        opened.directories.iter().filter_map(|directory| url::Url::from_directory_path(directory).ok());
    let template = |base: url::Url| {
        ResourceTemplate::new(format!("{base}{{+path}}"), "workspace file")
            .with_description("A file of the workspace, under the rules of the sandbox")
    };
    bases.map(template).collect()
}

pub(crate) fn read(session: &Session, opened: &Opened, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    if uri == LEDGER {
        return ledger(session, opened)
            .map(|text| one(ResourceContents::text(text, uri).with_mime_type("application/json")));
    }
    let path = url::Url::parse(uri)
        .ok()
        .filter(|url| url.scheme() == "file")
        .and_then(|url| url.to_file_path().ok());
    let Some(path) = path else {
        return Err(ErrorData::resource_not_found(format!("no such resource: {uri}"), None));
    };
    let content = opened.tools.content(&path.to_string_lossy()).map_err(|error| match error.kind {
        ErrorKind::NotFound => ErrorData::resource_not_found(error.chain(), None),
        _ => ErrorData::invalid_params(error.chain(), None),
    })?;
    Ok(one(match String::from_utf8(content) {
        Ok(text) => ResourceContents::text(text, uri),
        Err(error) => {
            use base64::Engine as _;
            let text = base64::engine::general_purpose::STANDARD.encode(error.as_bytes());
            ResourceContents::blob(text, uri)
        }
    }))
}

fn one(content: ResourceContents) -> ReadResourceResult {
    ReadResourceResult::new(vec![content])
}

fn ledger(session: &Session, opened: &Opened) -> Result<String, ErrorData> {
    if let Some(writer) = &session.options.ledger {
        writer.flush();
    }
    let failed = |error: ringfence::model::Error| ErrorData::internal_error(error.chain(), None);
    let ledger = Ledger::open_read_only(&opened.ledger).map_err(failed)?;
    let filter = ExecutionFilter { session_key: Some(session.key.clone()), ..ExecutionFilter::default() };
    let executions = ledger.executions(&filter).map_err(failed)?;
    Ok(json!({ "session": session.key, "executions": executions }).to_string())
}
