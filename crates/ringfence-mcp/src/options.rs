//! What a server is made of.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ringfence::gate::CodeReader;
use ringfence::ledger::Writer;
use ringfence::manager::Warn;
use ringfence::model::Result;
use ringfence::permission::FileQuestions;
use ringfence::setup::Setup;

/// Loads the configuration for a project. What comes second are more directories that belong to it.
pub type Loader = Arc<dyn Fn(&Path, &[PathBuf]) -> Result<Setup> + Send + Sync>;

/// Where sessions work.
#[derive(Debug, Clone)]
pub enum Projects {
    /// There, whatever the client says.
    Fixed(PathBuf),
    /// In the client's roots, or there when it has none. `within`: only in roots below that.
    Roots { otherwise: PathBuf, within: Option<PathBuf> },
}

/// What every session is made from.
#[derive(Clone)]
pub struct Options {
    pub projects: Projects,
    pub load: Loader,
    pub ledger: Option<Arc<Writer>>,
    /// Where questions wait that the client cannot bring to a person.
    pub file_questions: FileQuestions,
    /// Who reads Python and JavaScript for the gate. None: such code is asked about.
    pub code_reader: Option<Arc<dyn CodeReader>>,
    /// Layers of the fence that must hold.
    pub require: Vec<String>,
    /// The program that bwrap executes inside.
    pub stage: Option<PathBuf>,
    /// Hears what a person should know.
    pub warn: Warn,
    /// The session that clients work in; none: each has its own.
    pub session: Option<String>,
    /// Told to the client.
    pub version: String,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("projects", &self.projects).finish_non_exhaustive()
    }
}
