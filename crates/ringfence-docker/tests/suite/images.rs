//! Images that are built because they are not here.

use std::sync::{Arc, Mutex};

use ringfence_docker::testing::FULL;
use ringfence_fence::CreateOptions;
use ringfence_model::ErrorKind;
use serde_json::{Value, json};

use super::support::{World, run, text, wait};

/// A world, and an image of that name only there.
struct Yard {
    world: World,
    image: String,
    told: Arc<Mutex<Vec<String>>>,
}

impl Yard {
    fn new(name: &str) -> Option<Self> {
        Some(Self { world: World::new()?, image: format!("ringfence-built:{name}"), told: Arc::default() })
    }

    fn options(&self, build: Value) -> CreateOptions {
        let mut options = self.world.options(json!({ "image": self.image }));
        options.provider_options.set("build", build);
        let told = Arc::clone(&self.told);
        options.hooks.progress = Some(Arc::new(move |line: &str| told.lock().unwrap().push(line.to_owned())));
        options
    }

    /// What a command says in a sandbox that was made with this recipe.
    fn says(&self, build: Value, command: &str) -> String {
        let sandbox = self.world.create(self.options(build)).unwrap();
        let said = text(&run(&*sandbox, command).stdout);
        wait(sandbox.dispose()).unwrap();
        said
    }

    fn heard(&self) -> Vec<String> {
        std::mem::take(&mut *self.told.lock().unwrap())
    }

    fn id(&self) -> String {
        self.world.docker(&["image", "inspect", "-f", "{{.Id}}", &self.image])
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        self.world.docker(&["rmi", "-f", &self.image]);
    }
}

#[test]
fn an_image_is_built_from_its_base_once_and_said_so() {
    let Some(yard) = Yard::new("base") else { return };
    let one = json!({ "from": FULL, "run": ["mkdir /usr/made; echo 'from \"here\"\nCOPY no no' >/usr/made/note", "echo working hard"] });
    assert_eq!(yard.says(one.clone(), "cat /usr/made/note"), "from \"here\"\nCOPY no no\n");
    let heard = yard.heard();
    assert_eq!(heard[0], format!("building {} from {FULL}", yard.image));
    assert!(heard.iter().any(|line| line == "working hard"), "{heard:?}");
    let first = yard.id();
    assert_eq!(yard.says(one, "cat /usr/made/note").lines().count(), 2);
    assert_eq!((yard.heard(), yard.id()), (vec![], first.clone()), "it is here");
    // Another recipe is another image; no recipe is whatever is there.
    let other = json!({ "from": FULL, "run": ["mkdir /usr/made; echo other >/usr/made/note"] });
    assert_eq!(yard.says(other, "cat /usr/made/note"), "other\n");
    assert_ne!(yard.id(), first);
    assert_eq!(yard.says(Value::Null, "cat /usr/made/note"), "other\n");
    let dockerfile = yard.world.project.with_file_name("Dockerfile");
    std::fs::write(&dockerfile, format!("FROM {FULL}\nRUN echo by a file > /usr/note\n")).unwrap();
    assert_eq!(yard.says(json!({ "dockerfile": dockerfile }), "cat /usr/note"), "by a file\n");
    // What somebody named so himself is not replaced.
    yard.world.docker(&["tag", FULL, &yard.image]);
    yard.says(json!({ "from": "example/none:1" }), "true");
}

#[test]
fn a_container_that_nobody_used_lately_follows_its_recipe() {
    let Some(yard) = Yard::new("kept") else { return };
    let ledger = yard.world.project.with_file_name("ledger.db");
    let says = |build: &Value, key: &str| {
        let mut options = yard.options(build.clone());
        options.hooks.scope_key = Some(key.to_owned());
        options.provider_options.set("ledger", json!(ledger));
        let sandbox = yard.world.create(options).unwrap();
        let said = text(&run(&*sandbox, "cat /usr/note").stdout);
        wait(sandbox.dispose()).unwrap();
        (said, sandbox.assurance().degraded.iter().any(|note| note.text.contains("ringfence recreate")))
    };
    let key = format!("agent:recipe-{}", std::process::id());
    let recipe = |word: &str| json!({ "from": FULL, "run": [format!("echo {word} > /usr/note")] });
    assert_eq!(says(&recipe("one"), &key), ("one\n".to_owned(), false));
    assert_eq!(says(&recipe("one"), &key), ("one\n".to_owned(), false), "used again");
    assert_eq!(
        says(&recipe("two"), &key),
        ("one\n".to_owned(), true),
        "used a moment ago: kept, with a hint"
    );
    let label = format!("label=ringfence.sessionKey={key}");
    let name = yard.world.docker(&["ps", "-a", "--filter", &label, "--format", "{{.Names}}"]);
    yard.world.docker(&["stop", "-t", "0", &name]);
    assert_eq!(says(&recipe("two"), &key), ("two\n".to_owned(), false), "made anew");
    yard.world.docker(&["rm", "-f", &name]);
}

#[test]
fn what_cannot_be_built_or_fetched_is_said_with_the_reason_and_leaves_nothing() {
    let Some(yard) = Yard::new("broken") else { return };
    let none = yard.world.create(yard.options(json!({ "from": "example/none:1" }))).unwrap_err();
    assert_eq!(none.kind, ErrorKind::NotFound);
    assert!(none.message.contains("cannot be built from example/none:1"), "{none}");
    let failed = yard
        .world
        .create(yard.options(json!({ "from": FULL, "run": ["echo the disk is on fire >&2; exit 9"] })))
        .unwrap_err();
    let chain = failed.chain();
    assert!(chain.contains("the disk is on fire") && chain.contains("9"), "{chain}");
    assert!(failed.hints.iter().any(|hint| hint.contains("providerOptions.build")), "{:?}", failed.hints);
    let mut pulled = yard.options(Value::Null);
    pulled.provider_options.set("pull", json!(true));
    let error = yard.world.create(pulled).unwrap_err();
    assert!(error.message.contains("cannot be fetched"), "{error}");
    assert!(yard.heard().contains(&format!("pulling {}", yard.image)));
    assert_eq!(yard.id(), "");
    let left = yard.world.docker(&["ps", "-a", "--no-trunc", "--format", "{{.Command}}"]);
    assert!(!left.contains("on fire"), "the builder's container: {left}");
}
