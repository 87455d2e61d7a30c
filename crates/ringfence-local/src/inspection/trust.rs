//! Whom programs inside trust: everybody that those of the host do, and the sandbox's own authority.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ringfence_relay::ROOTS;

use super::jks;
use crate::host::{Host, canonical};
use crate::synthetic_etc::Replaced;

/// Where OpenSSL, and many others, look first. It is the person's own answer for all programs.
pub(crate) const FIRST: &str = "SSL_CERT_FILE";

/// Variables that name a file of trusted certificates.
const FILES: [&str; 11] = [
    FIRST,
    "NODE_EXTRA_CA_CERTS",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "CARGO_HTTP_CAINFO",
    "PIP_CERT",
    "DENO_CERT",
    "AWS_CA_BUNDLE",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NIX_SSL_CERT_FILE",
];

/// Where files are that the host has not, or does not show.
pub(super) const OWN: &str = "/run/ringfence";

#[derive(Debug, Default)]
pub(super) struct Trust {
    pub(super) replaced: Vec<Replaced>,
    pub(super) own: Vec<Replaced>,
    pub(super) variables: Vec<(&'static str, OsString)>,
}

impl Trust {
    pub(super) fn of(certificate: &str, host: &Host) -> Self {
        let mut trust = Self::default();
        for place in ROOTS.map(Path::new) {
            let Some(real) = canonical(place) else { continue };
            if let Ok(content) = std::fs::read(&real)
                && !trust.replaced.iter().any(|(known, _)| *known == real)
            {
                trust.replaced.push((real, with(content, certificate)));
            }
        }
        let usual = trust
            .shown(host.variable(FIRST), certificate)
            .or_else(|| trust.replaced.first().map(|(place, _)| place.clone()));
        let usual = usual.unwrap_or_else(|| trust.add(certificate.as_bytes().to_vec()));
        for name in FILES {
            let shown = trust.shown(host.variable(name), certificate);
            trust.variables.push((name, shown.unwrap_or_else(|| usual.clone()).into_os_string()));
        }
        // It brings its own list of authorities unless it is told so.
        trust.variables.push(("UV_NATIVE_TLS", "true".into()));
        trust.for_java(certificate, host);
        trust
    }

    /// Where the person's own file is found inside, with the authority in it.
    fn shown(&mut self, file: Option<&OsStr>, certificate: &str) -> Option<PathBuf> {
        let file = file.map(Path::new).filter(|file| file.is_absolute())?;
        let real = canonical(file)?;
        if self.replaced.iter().any(|(known, _)| *known == real) {
            return Some(real);
        }
        // Nothing else that is in it: some keep a key beside them.
        let own = certificates_in(&String::from_utf8_lossy(&std::fs::read(&real).ok()?));
        let content = with(own.into_bytes(), certificate);
        let known = self.own.iter().find(|(_, known)| *known == content).map(|(place, _)| place.clone());
        Some(known.unwrap_or_else(|| self.add(content)))
    }

    fn add(&mut self, content: Vec<u8>) -> PathBuf {
        let place = Path::new(OWN).join(format!("certificates-{}.pem", self.own.len()));
        self.own.push((place.clone(), content));
        place
    }

    /// Java knows no variable for it; what it trusts is a file beside its program.
    fn for_java(&mut self, certificate: &str, host: &Host) {
        let programs = host.path.iter().filter_map(|directory| canonical(&directory.join("java")));
        let named = host.variable("JAVA_HOME").map(PathBuf::from);
        let homes = programs.filter_map(|program| Some(program.parent()?.parent()?.to_owned())).chain(named);
        for home in homes {
            let stores = ["lib/security/cacerts", "jre/lib/security/cacerts"];
            let Some(store) = stores.iter().find_map(|store| canonical(&home.join(store))) else { continue };
            if self.replaced.iter().any(|(known, _)| *known == store) {
                continue;
            }
            let Ok(content) = std::fs::read(&store) else { continue };
            // One of another form is written anew, from what other programs trust.
            let extended = jks::extended(&content, &certificates(certificate.as_bytes()));
            let anew = || self.replaced.first().and_then(|(_, bundle)| jks::of(&certificates(bundle)));
            if let Some(extended) = extended.or_else(anew) {
                self.replaced.push((store, extended));
            }
        }
    }
}

fn with(mut bundle: Vec<u8>, certificate: &str) -> Vec<u8> {
    if !bundle.is_empty() && !bundle.ends_with(b"\n") {
        bundle.push(b'\n');
    }
    bundle.extend_from_slice(certificate.as_bytes());
    bundle
}

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

fn bodies(text: &str) -> impl Iterator<Item = &str> {
    text.split(BEGIN).skip(1).filter_map(|part| Some(part.split_once(END)?.0))
}

/// The certificates of a text, and nothing else.
fn certificates_in(text: &str) -> String {
    bodies(text).map(|body| format!("{BEGIN}{body}{END}\n")).collect()
}

/// Those of a file of them, as they are within.
fn certificates(bundle: &[u8]) -> Vec<Vec<u8>> {
    let text = String::from_utf8_lossy(bundle);
    let bodies = bodies(&text);
    let plain = |body: &str| body.split_whitespace().collect::<String>();
    bodies.filter_map(|body| STANDARD.decode(plain(body)).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nb3du\n-----END CERTIFICATE-----\n";

    #[test]
    fn a_bundle_of_the_persons_is_the_one_that_is_extended() {
        let temp = tempfile::tempdir().unwrap();
        let (mine, other) = (temp.path().join("mine.pem"), temp.path().join("other.pem"));
        let [own, others] = ["bWluZQ==", "b3RoZXI="].map(|body| CERTIFICATE.replace("b3du", body));
        std::fs::write(&mine, format!("{own}-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----"))
            .unwrap();
        std::fs::write(&other, &others).unwrap();
        let variables = [
            ("SSL_CERT_FILE", mine.as_os_str()),
            ("CURL_CA_BUNDLE", mine.as_os_str()),
            ("PIP_CERT", other.as_os_str()),
            ("GIT_SSL_CAINFO", OsStr::new("/nonexistent/file")),
        ];
        let variables = variables.map(|(name, value)| (OsString::from(name), value.to_owned()));
        let host = Host::from_environment(variables.into());
        let trust = Trust::of(CERTIFICATE, &host);
        let place = |name: &str| &trust.variables.iter().find(|(own, _)| *own == name).unwrap().1;
        let read = |name: &str| {
            let found = trust.own.iter().find(|(path, _)| path == Path::new(place(name))).unwrap();
            String::from_utf8(found.1.clone()).unwrap()
        };
        assert_eq!(trust.own.len(), 2);
        assert_eq!(read("SSL_CERT_FILE"), format!("{own}{CERTIFICATE}"));
        assert_eq!(read("PIP_CERT"), format!("{others}{CERTIFICATE}"));
        for unset in ["CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS"] {
            assert_eq!(place(unset), place("SSL_CERT_FILE"), "{unset}");
        }
    }

    #[test]
    fn certificates_are_taken_out_of_what_is_around_them() {
        let bundle = format!("# one\n{CERTIFICATE}\n{}", CERTIFICATE.replace("b3du", "b3\nRo\n"));
        assert_eq!(certificates(bundle.as_bytes()), [b"own".to_vec(), b"oth".to_vec()]);
    }
}
