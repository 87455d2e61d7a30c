//! What may be said to a host whose requests are looked into, and which credential is put in on the way.

use std::borrow::Cow;
use std::path::PathBuf;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};

/// Requests to a host that are looked into.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Inspect {
    /// In capitals; any, when none is named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub methods: Vec<String>,
    /// Begin with `/`; `*` within a segment, `**` across them; any, when none is named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// Put in outside, so that nothing inside has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credential: Option<Credential>,
}

impl Inspect {
    /// Of what was written; none when it says nothing.
    pub fn checked(
        methods: Vec<String>,
        paths: Vec<String>,
        credential: Option<Credential>,
    ) -> Result<Option<Self>, String> {
        let methods: Vec<String> = methods.iter().map(|method| method.to_ascii_uppercase()).collect();
        if let Some(method) = methods.iter().find(|method| !is_token(method)) {
            return Err(format!("`{}` is not a method such as GET", method.escape_debug()));
        }
        if let Some(path) = paths.iter().find(|path| !is_path(path)) {
            return Err(format!(
                "`{}` is not a path of a request: it begins with `/` and has no `?`, `#` or blank",
                path.escape_debug()
            ));
        }
        let inspect = Self { methods, paths, credential };
        Ok((inspect != Self::default()).then_some(inspect))
    }
}

impl std::fmt::Display for Inspect {
    /// What passes: `GET, HEAD of /repos/**`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.methods.as_slice() {
            [] => f.write_str("any method")?,
            methods => f.write_str(&methods.join(", "))?,
        }
        match self.paths.as_slice() {
            [] => Ok(()),
            paths => write!(f, " of {}", paths.join(", ")),
        }
    }
}

/// A header of each request, and where its value comes from. The value itself is never here.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "WrittenCredential", into = "WrittenCredential")]
pub struct Credential {
    pub header: String,
    pub from: CredentialSource,
    /// The variable that holds something of the same form inside, for programs that want one.
    pub variable: Option<String>,
}

/// Where the value of a credential is, outside.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CredentialSource {
    /// Text with variables of the caller in it: `Bearer $TOKEN`.
    Variables(String),
    /// The first line of a file.
    File(PathBuf),
    /// The first line that a command prints.
    Command(Vec<String>),
}

/// A credential as a file has it.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct WrittenCredential {
    /// The header that is set.
    #[schemars(length(min = 1))]
    header: String,
    /// Text with variables of yours: `Bearer $TOKEN`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    value: Option<String>,
    /// A file whose first line is the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    /// A command whose first line is the value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    /// The variable that is set inside, to something that is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    variable: Option<String>,
}

impl TryFrom<WrittenCredential> for Credential {
    type Error = String;

    fn try_from(written: WrittenCredential) -> Result<Self, String> {
        let WrittenCredential { header, value, file, command, variable } = written;
        if !is_token(&header) {
            return Err(format!("`{}` is not the name of a header", header.escape_debug()));
        }
        let from = match (value, file, command) {
            (Some(value), None, None) if !variables_in(&value).is_empty() => {
                CredentialSource::Variables(value)
            }
            (Some(_), None, None) => {
                return Err("`value` names no variable; a secret stays out of this file: write `$NAME`, \
                            `file` or `command`"
                    .to_owned());
            }
            (None, Some(file), None) if file.starts_with(['/', '~']) => CredentialSource::File(file.into()),
            (None, Some(file), None) => return Err(format!("`file` is not an absolute path: `{file}`")),
            (None, None, Some(command)) if command.first().is_some_and(|first| !first.is_empty()) => {
                CredentialSource::Command(command)
            }
            (None, None, Some(_)) => return Err("`command` is empty".to_owned()),
            _ => return Err("a credential has one of `value`, `file` and `command`".to_owned()),
        };
        if let Some(name) = variable.as_deref().filter(|name| !is_variable(name)) {
            return Err(format!("`{}` is not the name of a variable", name.escape_debug()));
        }
        Ok(Self { header, from, variable })
    }
}

impl From<Credential> for WrittenCredential {
    fn from(credential: Credential) -> Self {
        let Credential { header, from, variable } = credential;
        let written = Self { header, variable, ..Self::default() };
        match from {
            CredentialSource::Variables(text) => Self { value: Some(text), ..written },
            CredentialSource::File(path) => {
                Self { file: Some(path.to_string_lossy().into_owned()), ..written }
            }
            CredentialSource::Command(words) => Self { command: Some(words), ..written },
        }
    }
}

/// The names of the variables in a text: `$NAME`.
#[must_use]
pub fn variables_in(text: &str) -> Vec<&str> {
    pieces(text).filter_map(Piece::variable).collect()
}

/// The text with each variable's value in its place; an error is the first that has none.
pub fn with_variables(text: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let values = pieces(text).map(|piece| match piece {
        Piece::Text(text) => Ok(text.to_owned()),
        Piece::Variable(name) => value(name).ok_or_else(|| name.to_owned()),
    });
    values.collect()
}

enum Piece<'a> {
    Text(&'a str),
    Variable(&'a str),
}

impl<'a> Piece<'a> {
    fn variable(self) -> Option<&'a str> {
        match self {
            Self::Variable(name) => Some(name),
            Self::Text(_) => None,
        }
    }
}

fn pieces(text: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let begins = |at: &usize| rest[at + 1..].starts_with(|c: char| is_part(c) && !c.is_ascii_digit());
        let first = rest.match_indices('$').map(|(at, _)| at).find(begins);
        let (piece, after) = match first {
            _ if rest.is_empty() => return None,
            Some(0) => {
                let end = rest[1..].find(|c| !is_part(c)).map_or(rest.len(), |end| end + 1);
                (Piece::Variable(&rest[1..end]), &rest[end..])
            }
            Some(at) => (Piece::Text(&rest[..at]), &rest[at..]),
            None => (Piece::Text(rest), ""),
        };
        rest = after;
        Some(piece)
    })
}

impl JsonSchema for Credential {
    fn schema_name() -> Cow<'static, str> {
        "Credential".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        WrittenCredential::json_schema(generator)
    }
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

fn is_path(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|b| b.is_ascii_graphic() && b != b'?' && b != b'#')
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_credential_says_where_it_is_and_never_what() {
        for written in [
            json!({ "header": "Authorization", "value": "Bearer $TOKEN", "variable": "TOKEN" }),
            json!({ "header": "X-Key", "file": "~/.keys/x" }),
            json!({ "header": "X-Key", "command": ["pass", "show", "x"] }),
        ] {
            let credential: Credential = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(serde_json::to_value(credential).unwrap(), written);
        }
        for (written, why) in [
            (json!({ "header": "Authorization", "value": "Bearer abc" }), "names no variable"),
            (json!({ "header": "a b", "file": "/x" }), "name of a header"),
            (json!({ "header": "A", "file": "x" }), "absolute"),
            (json!({ "header": "A" }), "one of"),
            (json!({ "header": "A", "file": "/x", "command": ["y"] }), "one of"),
            (json!({ "header": "A", "command": [] }), "empty"),
            (json!({ "header": "A", "file": "/x", "variable": "1" }), "name of a variable"),
            (json!({ "header": "A", "file": "/x", "secret": "1" }), "unknown field"),
        ] {
            let error = serde_json::from_value::<Credential>(written).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn variables_are_found_and_put_in() {
        let value = |name: &str| (name != "NONE").then(|| format!("<{name}>"));
        for (text, names, want) in [
            ("Bearer $A", &["A"][..], Ok("Bearer <A>")),
            ("$A:$B_1.x", &["A", "B_1"], Ok("<A>:<B_1>.x")),
            ("$5 $ $$A", &["A"], Ok("$5 $ $<A>")),
            ("x$NONE", &["NONE"], Err("NONE")),
        ] {
            assert_eq!(variables_in(text), names);
            assert_eq!(with_variables(text, value).as_deref().map_err(String::as_str), want);
        }
    }

    #[test]
    fn what_passes_is_said() {
        let inspect = |methods: &[&str], paths: &[&str]| {
            let own = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
            Inspect { methods: own(methods), paths: own(paths), credential: None }.to_string()
        };
        assert_eq!(inspect(&["GET", "HEAD"], &["/a/**"]), "GET, HEAD of /a/**");
        assert_eq!(inspect(&[], &["/a", "/b"]), "any method of /a, /b");
        assert_eq!(inspect(&["GET"], &[]), "GET");
    }

    #[test]
    fn methods_and_paths_are_those_of_requests() {
        let checked =
            |method: &str, path: &str| Inspect::checked(vec![method.to_owned()], vec![path.to_owned()], None);
        assert_eq!(checked("get", "/repos/**").unwrap().unwrap().methods, ["GET"]);
        assert!(checked("GE T", "/").is_err() && checked("GET", "repos").is_err());
        assert!(checked("GET", "/a?b").is_err());
        assert_eq!(Inspect::checked(vec![], vec![], None), Ok(None));
    }
}
