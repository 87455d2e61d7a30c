//! The bridge for those who judge paths before they touch them.

use std::path::{Component, Path, PathBuf};

use ringfence_fence::BoxFuture;
use ringfence_fence::files::{LastLink, Located, SandboxFiles};
use ringfence_model::{Error, ErrorKind, Result};
use ringfence_workspace::RemoveDepth;

use super::files::{Bridge, Counted, For, Missing, Parents, Place, garbled, script, succeed};
use super::listing::{BridgeEntry, read_contents, read_listings, read_located};
use crate::exec::Script;

/// As much as one script is asked for: a command line has an end, and so has patience.
const MOST_AT_ONCE: usize = 100;
const MOST_BYTES_OF_PATHS: usize = 64 << 10;
const MOST_BYTES_AT_ONCE: u64 = 32 << 20;

/// Files grow while they are read.
const ROOM_TO_GROW: u64 = 64 << 20;

impl SandboxFiles for Bridge {
    fn locate<'a>(&'a self, path: &'a Path, last: LastLink) -> BoxFuture<'a, Result<Located>> {
        Box::pin(async move {
            let place = Place::find(self.map(), path, For::Reading)?;
            let last = match last {
                LastLink::Follow => "follow",
                LastLink::Keep => "keep",
            };
            let said = self.run("find", path, script!("locate.sh"), &place.arguments(&[last])).await?;
            let (directory, below, stat) = read_located(&said).ok_or_else(|| garbled("locate", path))?;
            let mut parts = below.components().filter(|part| *part != Component::CurDir).peekable();
            let mut at = directory;
            let mut missing = vec![];
            while let Some(part) = parts.next() {
                at.push(part);
                if parts.peek().is_some() {
                    missing.push(self.host_of(&at)?);
                }
            }
            let mut located = self.place_of(at)?;
            (located.stat, located.missing) = (stat, missing);
            Ok(located)
        })
    }

    fn read<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<Vec<u8>>> {
        Box::pin(self.read_whole(script!(exact "read.sh"), &at.path))
    }

    fn read_many<'a>(&'a self, files: &'a [Located]) -> BoxFuture<'a, Result<Vec<Option<Vec<u8>>>>> {
        Box::pin(async move {
            let mut contents = Vec::with_capacity(files.len());
            for batch in self.batches(files)? {
                let mark = uuid::Uuid::now_v7().simple().to_string();
                let mut arguments = vec![batch.mount.as_str(), self.several_names()];
                arguments.extend(batch.names());
                let line = format!("{mark}\n");
                let (mut input, mut said) = (line.as_bytes(), Vec::new());
                let limit = batch.bytes.saturating_add(ROOM_TO_GROW);
                let mut output = Counted { output: &mut said, bytes: 0, limit };
                let script = Script { text: script!(exact "reads.sh"), arguments: &arguments };
                let finished = self.exec().run(script, &mut input, &mut output).await?;
                succeed("read", Path::new(&batch.mount), &finished)?;
                let read = read_contents(&said, &mark).filter(|read| read.len() == batch.places.len());
                contents.extend(read.ok_or_else(|| garbled("read", Path::new(&batch.mount)))?);
            }
            Ok(contents)
        })
    }

    fn write<'a>(&'a self, at: &'a Located, content: &'a [u8]) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let (mut input, length) = (content, content.len() as u64);
            self.write_by(script!(exact "write.sh"), &at.path, &mut input, length, Parents::Make).await
        })
    }

    fn remove<'a>(&'a self, at: &'a Located) -> BoxFuture<'a, Result<()>> {
        let script = script!(exact "remove.sh");
        Box::pin(self.remove_by(script, &at.path, RemoveDepth::Single, Missing::Fail))
    }

    fn list<'a>(&'a self, directories: &'a [Located]) -> BoxFuture<'a, Result<Vec<Option<Vec<Located>>>>> {
        Box::pin(async move {
            let mut all = Vec::with_capacity(directories.len());
            for batch in self.batches(directories)? {
                let mut arguments = vec![batch.mount.as_str()];
                arguments.extend(batch.names());
                let blamed = batch.first();
                let text = match self.run("list", &blamed, script!(exact "list.sh"), &arguments).await {
                    // One that cannot be listed is alone with that.
                    Err(_) if batch.places.len() == 1 && directories.len() > 1 => {
                        all.push(None);
                        continue;
                    }
                    text => text?,
                };
                let listed = read_listings(&text).filter(|listed| listed.len() == batch.places.len());
                all.extend(listed.ok_or_else(|| garbled("list", &blamed))?);
            }
            let entries = |(directory, entries): (&Located, Option<Vec<BridgeEntry>>)| {
                let its = |entry: BridgeEntry| self.entry(directory, entry);
                entries.map(|entries| entries.into_iter().map(its).collect()).transpose()
            };
            directories.iter().zip(all).map(entries).collect()
        })
    }
}

/// What one script is asked for, all of it in one mount.
#[derive(Debug, Default)]
struct Batch {
    mount: String,
    places: Vec<Place>,
    bytes: u64,
    bytes_of_paths: usize,
}

impl Batch {
    fn takes(&self, place: &Place, size: u64) -> bool {
        self.mount == place.mount
            && self.places.len() < MOST_AT_ONCE
            && self.bytes_of_paths + place.directory.len() + place.name.len() <= MOST_BYTES_OF_PATHS
            && self.bytes.saturating_add(size) <= MOST_BYTES_AT_ONCE
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.places.iter().flat_map(|place| [place.directory.as_str(), place.name.as_str()])
    }

    fn first(&self) -> PathBuf {
        let below = self.places.first().map(|place| Path::new(&place.directory).join(&place.name));
        Path::new(&self.mount).join(below.unwrap_or_default())
    }
}

impl Bridge {
    fn batches(&self, places: &[Located]) -> Result<Vec<Batch>> {
        let mut batches: Vec<Batch> = vec![];
        for located in places {
            let place = Place::find(self.map(), &located.path, For::Reading)?;
            let size = located.stat.map_or(0, |stat| stat.size);
            if !batches.last().is_some_and(|batch| batch.takes(&place, size)) {
                batches.push(Batch { mount: place.mount.clone(), ..Batch::default() });
            }
            if let Some(batch) = batches.last_mut() {
                batch.bytes = batch.bytes.saturating_add(size);
                batch.bytes_of_paths += place.directory.len() + place.name.len();
                batch.places.push(place);
            }
        }
        Ok(batches)
    }

    fn host_of(&self, path: &Path) -> Result<PathBuf> {
        self.place_of(path.to_owned()).map(|located| located.host)
    }

    /// Of a path that the container's kernel gave.
    fn place_of(&self, path: PathBuf) -> Result<Located> {
        // It has to be the mount inside that decides, and never a path of the host that happens to read the same.
        let host = self.map().to_host(&path).ok_or_else(|| {
            let message = format!("{} is in no mount of the container", path.display());
            Error::new(ErrorKind::PathTraversal, message)
        })?;
        let mapped = self.map().resolve(&path)?;
        Ok(Located { path, host, shown: mapped.shown, mode: mapped.mode, stat: None, missing: vec![] })
    }

    fn entry(&self, directory: &Located, entry: BridgeEntry) -> Result<Located> {
        let mut at = self.place_of(directory.path.join(&entry.name))?;
        at.stat = Some(entry.stat);
        Ok(at)
    }
}
