//! Ways around a rule about requests, and ways to a credential that is put in outside.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::suite::fence_inspected::{PART, SECRET, Site};
use crate::suite::fence_support::{Launcher, for_every_launcher};

for_every_launcher! {
    no_spelling_of_a_path_or_request_is_a_way_around,
    a_credential_never_comes_back,
    a_credential_is_put_in_for_its_own_host_alone,
    the_authority_is_for_inspected_hosts_alone,
}

fn no_spelling_of_a_path_or_request_is_a_way_around(launcher: Launcher) {
    let site = Site::new();
    let room = site.room(launcher, &site.rules());
    if !site.is_reached(&room) {
        return;
    }
    let before = site.heard();
    for path in [
        "/v1/../v2",
        "/v1/%2e%2e/v2",
        "/v1/.%2E/v2",
        "/v1//../v2",
        "/v1//x",
        "/v1%2f..%2fv2",
        "/v1/..;/v2",
        "//v1/x",
        "/V1/x",
    ] {
        for version in ["--http1.1", "--http2"] {
            let ran = site.curl(&room, version, "a.test", path);
            assert!(ran.stdout.contains(" 403") && ran.resources().len() == 1, "{path}: {ran:?}");
        }
    }
    let smuggled = "DELETE /v2/smuggled HTTP/1.1\\r\\nHost: a.test:PORT\\r\\n\\r\\n";
    let get = "GET /v1/x HTTP/1.1\\r\\n";
    let put = "PUT /up/x HTTP/1.1\\r\\nHost: a.test:PORT\\r\\n";
    for text in [
        // Another host, by each of the ways to name it.
        format!("{get}Host: b.test:PORT\\r\\n\\r\\n"),
        format!("{get}Host: a.test:PORT\\r\\nHost: b.test:PORT\\r\\n\\r\\n"),
        "GET https://b.test:PORT/v1/x HTTP/1.1\\r\\nHost: a.test:PORT\\r\\n\\r\\n".to_owned(),
        "CONNECT b.test:PORT HTTP/1.1\\r\\nHost: b.test:PORT\\r\\n\\r\\n".to_owned(),
        // Another protocol.
        "PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n".to_owned(),
        "SSH-2.0-x\\r\\n".to_owned(),
    ] {
        let ran = site.say(&room, "a.test", &[&text]);
        assert!(!ran.stdout.contains("HTTP/1.1 200"), "{text}: {ran:?}");
    }
    assert_eq!(site.heard(), before, "nothing of it arrived");
    // A length that is said twice, and one that is hidden: what is read differently is not passed on as it is.
    for text in [
        format!("{put}Content-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n0\\r\\n\\r\\n{smuggled}"),
        format!(
            "{put}Transfer-Encoding: chunked\\r\\nTransfer-Encoding: identity\\r\\n\\r\\n0\\r\\n\\r\\n{smuggled}"
        ),
        format!("{put}Content-Length: 0\\r\\nContent-Length: 70\\r\\n\\r\\n{smuggled}"),
        format!("{put}Transfer-Encoding : chunked\\r\\nContent-Length: 0\\r\\n\\r\\n{smuggled}"),
        format!("{put}X: y\\r\\n Transfer-Encoding: chunked\\r\\nContent-Length: 0\\r\\n\\r\\n{smuggled}"),
    ] {
        let ran = site.say(&room, "a.test", &[&text]);
        assert!(!site.heard().contains("smuggled"), "{text}: {ran:?}");
    }

    // A request to change to HTTP/2 is answered in HTTP/1.1.
    let upgrade =
        "Connection: Upgrade, HTTP2-Settings\\r\\nUpgrade: h2c\\r\\nHTTP2-Settings: AAMAAABkAAQAAP__\\r\\n";
    let ran = site.say(&room, "a.test", &[&format!("{get}Host: a.test:PORT\\r\\n{upgrade}\\r\\n")]);
    assert!(ran.stdout.contains("HTTP/1.1 200") && !site.heard().contains("upgrade"), "{ran:?}");
    // TLS that asks for another host is none.
    let ran = site.say(&room, "b.test", &[&format!("{get}Host: b.test:PORT\\r\\n\\r\\n")]);
    assert!(ran.stdout.contains("failed") && ran.resources() == ["b.test"], "{ran:?}");
    assert!(!site.heard().contains("b.test"), "{}", site.heard());
}

fn a_credential_never_comes_back(launcher: Launcher) {
    let site = Site::new();
    let room = site.room(launcher, &site.rules());
    if !site.is_reached(&room) {
        return;
    }
    for version in ["--http1.1", "--http2"] {
        for kind in ["redirect", "reason", "name", "slowly", "compressed", "part", "trailers", "x"] {
            // It is looked for in all that is printed.
            let ran =
                site.curl(&room, &format!("{version} --compressed -r 2-9"), "a.test", &format!("/v1/{kind}"));
            assert!(ran.stdout.starts_with("HTTP/"), "{kind}: {ran:?}");
            assert!(!ran.stdout.contains(&SECRET[2..10]), "{kind}: {ran:?}");
            if kind == "compressed" {
                assert!(ran.stdout.contains(" 502"), "{ran:?}");
            }
        }
    }
    let ran = site.curl(&room, "-L", "a.test", "/v1/redirect");
    let heard = site.heard();
    let caught = heard.lines().filter(|line| line.contains("/caught")).collect::<Vec<_>>();
    assert!(caught.len() == 1 && !caught[0].contains(PART), "{caught:?}: {ran:?}");
    // The placeholder came back in its place.
    let ran =
        room.fenced(&format!("test \"$(curl -sS https://a.test:{}/v1/part)\" = \"$A_TOKEN\"", site.port));
    assert_eq!(ran.code, 0, "{ran:?}");

    // Nobody else has it either.
    for arguments in [
        &["log", "--network", "--json"][..],
        &["log", "--json"],
        &["config", "show"],
        &["config", "show", "--json"],
        &["explain", "--json", "a.test:443"],
    ] {
        let ran = room.run(arguments);
        assert!(!format!("{ran:?}").contains(PART), "{arguments:?}: {ran:?}");
    }
    for file in walk(&room.ringfence_home) {
        let text = std::fs::read(&file).unwrap();
        assert!(!text.windows(PART.len()).any(|part| part == PART.as_bytes()), "{}", file.display());
    }
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

fn a_credential_is_put_in_for_its_own_host_alone(launcher: Launcher) {
    let site = Site::new();
    let mut rules = site.rules();
    let file = site.file("key");
    std::fs::write(&file, "another-one-that-is-secret\n").unwrap();
    let more = json!({ "host": "a.test", "port": site.port, "paths": ["/keys/*"],
        "credential": { "header": "X-Key", "command": ["cat", file], "variable": "KEY" } });
    rules.as_array_mut().unwrap().push(more);
    let mut room = site.room(launcher, &rules);
    // The same by another name, which somebody lets in.
    room.env.push(("OTHER".to_owned(), format!("x{SECRET}y")));
    if !site.is_reached(&room) {
        return;
    }
    let options = ["--env", "OTHER", "--env", "A_TOKEN"];
    let ran = room.fenced_with(&options, "env; cat /proc/*/environ | tr '\\0' '\\n'");
    assert!(!ran.json.to_string().contains(PART) && !ran.stdout.contains("another-one"), "{ran:?}");
    assert!(
        ran.stdout.contains("A_TOKEN=ghp_ringfence") && ran.stdout.contains("OTHER=xghp_ringfence"),
        "{ran:?}"
    );
    assert!(ran.stdout.contains("KEY=ringfence"), "{ran:?}");

    site.curl(&room, "-H \"Authorization: token $A_TOKEN\"", "a.test", "/v1/own");
    site.curl(&room, "-H \"Authorization: Bearer $A_TOKEN\"", "b.test", "/v1/other");
    site.curl(&room, "-T inspected.py -H \"Authorization: Bearer $A_TOKEN\"", "a.test", "/up/x");
    site.curl(&room, "-H \"X-Key: $KEY\"", "a.test", "/keys/x");
    site.curl(&room, "-H \"X-Key: $KEY\"", "a.test", "/v1/keyless");
    let heard = site.heard();
    let line = |path: &str| heard.lines().find(|line| line.contains(path)).unwrap();
    assert!(line("/v1/own").contains(&format!("| token {SECRET} |")), "{heard}");
    assert!(
        line("/v1/other").contains("| b.test:") && line("/v1/other").contains("Bearer ghp_ringfence"),
        "{heard}"
    );
    assert!(line("/up/x").contains("Bearer ghp_ringfence"), "{heard}");
    assert!(line("/keys/x").ends_with("|  | another-one-that-is-secret"), "{heard}");
    assert!(line("/v1/keyless").contains("| ringfence"), "{heard}");
}

fn the_authority_is_for_inspected_hosts_alone(launcher: Launcher) {
    let site = Site::new();
    let room = site.room(launcher, &site.rules());
    if !site.is_reached(&room) {
        return;
    }
    let issuer = |host: &str| {
        let line = format!(
            "openssl s_client -connect {host}:{} -servername {host} -verify_return_error </dev/null 2>&1 | grep -i issuer=",
            site.port
        );
        let ran = room.fenced(&line);
        ran.stdout
    };
    assert!(issuer("a.test").contains("Ringfence, for one sandbox"), "{}", issuer("a.test"));
    assert!(issuer("b.test").contains("authority-of-the-test"), "{}", issuer("b.test"));
    // Its certificate is there; its key is not, and neither is anybody who could sign with it.
    let ran = room.fenced(
        "grep -c BEGIN.CERT $SSL_CERT_FILE; \
         grep -l 'PRIVATE KEY' -r $XDG_RUNTIME_DIR $TMPDIR \"$HOME\" /etc/ssl/certs 2>/dev/null; true",
    );
    assert_eq!(ran.stdout, "2\n", "{ran:?}");
    let one = room.fenced("tail -n 8 $SSL_CERT_FILE | sha256sum").stdout;
    assert_ne!(one, room.fenced("tail -n 8 $SSL_CERT_FILE | sha256sum").stdout, "each sandbox has its own");
    // Where nothing is inspected there is none.
    room.configure(&json!({ "allowedHosts": [format!("b.test:{}", site.port), "127.0.0.1:1"] }).to_string());
    let ran = room.fenced("echo $SSL_CERT_FILE; ls $XDG_RUNTIME_DIR");
    assert_eq!(ran.stdout, format!("{}\n", site.file("ca.pem").display()), "{ran:?}");
}
