//! The client's project directories.
#![expect(deprecated, reason = "roots are part of every version of the protocol that has sessions")]

use std::path::PathBuf;
use std::time::Duration;

use ringfence::model::{Error, ErrorKind, Result};
use rmcp::RoleServer;
use rmcp::service::Peer;

use crate::options::Projects;

/// A client that has roots knows them.
const PATIENCE: Duration = Duration::from_secs(20);

/// The directories of a session, the first one being where it works. Asked from the client's program: nothing that a
/// model says comes in here.
pub(crate) async fn directories(projects: &Projects, peer: &Peer<RoleServer>) -> Result<Vec<PathBuf>> {
    let (otherwise, within) = match projects {
        Projects::Fixed(project) => return Ok(vec![project.clone()]),
        Projects::Roots { otherwise, within } => (otherwise, within),
    };
    let has_roots = peer.peer_info().is_some_and(|client| client.capabilities.roots.is_some());
    if !has_roots {
        return Ok(vec![otherwise.clone()]);
    }
    let asked = tokio::time::timeout(PATIENCE, peer.list_roots()).await;
    let listed = match asked {
        Ok(Ok(listed)) => listed,
        Ok(Err(error)) => return Err(unknown(&error.to_string())),
        Err(_) => return Err(unknown("it did not answer")),
    };
    let mut found = vec![];
    for root in listed.roots {
        let Some(path) = path_of(&root.uri) else { continue };
        let Ok(path) = path.canonicalize() else { continue };
        if path.is_dir()
            && within.as_ref().is_none_or(|within| path.starts_with(within))
            && !found.contains(&path)
        {
            found.push(path);
        }
    }
    if found.is_empty() {
        found.push(otherwise.clone());
    }
    Ok(found)
}

fn unknown(why: &str) -> Error {
    Error::new(ErrorKind::Validation, format!("the client's roots are not known: {why}"))
        .hint("start the server with --project DIR to work there whatever the client says")
}

fn path_of(uri: &str) -> Option<PathBuf> {
    url::Url::parse(uri).ok().filter(|url| url.scheme() == "file")?.to_file_path().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_on_this_machine_are_directories() {
        assert_eq!(path_of("file:///home/a%20b"), Some(PathBuf::from("/home/a b")));
        for other in ["https://example.org/x", "file://host/x", "/home", "not a uri", ""] {
            assert_eq!(path_of(other), None, "{other}");
        }
    }
}
