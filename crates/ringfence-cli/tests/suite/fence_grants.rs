//! What a person granted for always, in later runs.

use crate::suite::fence_support::{Launcher, for_every_launcher};
use crate::suite::support::Room;

for_every_launcher! { a_lasting_grant_holds_for_a_file_that_a_pattern_denies }

/// The file is shown, alone and only as it was granted.
fn a_lasting_grant_holds_for_a_file_that_a_pattern_denies(launcher: Launcher) {
    let room = Room::on(launcher);
    room.write(".env", "granted\n");
    room.write("sub/.env", "hidden\n");
    let granted = room.project.join(".env");
    room.configure(&format!(r#"{{ "grants": [{{ "path": "{}", "access": "read" }}] }}"#, granted.display()));
    let ran = room.fenced("cat .env; cat sub/.env; echo x > .env; true");
    assert_eq!(ran.stdout, "granted\n", "{ran:?}");
    assert_eq!(std::fs::read_to_string(&granted).unwrap(), "granted\n");
    let hidden = room.project.join("sub/.env").display().to_string();
    assert!(ran.resources().contains(&hidden.as_str()), "{ran:?}");
}
