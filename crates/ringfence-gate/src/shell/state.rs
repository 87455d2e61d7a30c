//! What is known about the shell at one point of the text.

use std::collections::BTreeMap;
use std::rc::Rc;

use ringfence_bash::Command;

use crate::value::Val;

/// The value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Var {
    Scalar(Val),
    Array(Vec<Val>),
    Unknown,
}

/// A function that the text defines.
#[derive(Clone, Debug)]
pub(crate) struct Function {
    pub(crate) body: Rc<Command>,
    /// Numbers the definitions of a text, to tell at its end which were never called.
    pub(crate) id: usize,
}

/// Variables, functions and place. Cloned for whatever runs in a child.
#[derive(Clone, Debug)]
pub(crate) struct State {
    pub(crate) vars: Rc<BTreeMap<String, Var>>,
    pub(crate) functions: Rc<BTreeMap<String, Function>>,
    /// `$0` and up; `None` when the caller's are not known.
    pub(crate) positional: Option<Rc<Vec<Val>>>,
    /// The working directory; `None` when it is not known.
    pub(crate) cwd: Option<Rc<str>>,
    pub(crate) previous: Option<Rc<str>>,
    /// Whether words are still split at blanks.
    pub(crate) default_ifs: bool,
    /// Files that the text wrote, with what is known of their content.
    pub(crate) written: Rc<BTreeMap<String, Written>>,
}

/// What the text wrote to a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// This.
    Text(Rc<str>),
    /// Something from the network, or decoded.
    Foreign,
}

/// What a search path holds as long as nobody changes it.
pub(crate) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

impl State {
    pub(crate) fn new(home: &str, cwd: Option<&str>) -> Self {
        let user = crate::path::base_name(home);
        let vars = [("HOME", home), ("PATH", DEFAULT_PATH), ("USER", user), ("LOGNAME", user)];
        let vars = vars.map(|(name, value)| (name.to_owned(), Var::Scalar(Val::text(value))));
        Self {
            vars: Rc::new(BTreeMap::from(vars)),
            functions: Rc::default(),
            positional: None,
            cwd: cwd.map(Rc::from),
            previous: None,
            default_ifs: true,
            written: Rc::default(),
        }
    }

    pub(crate) fn set(&mut self, name: &str, var: Var) {
        if name == "IFS" {
            self.default_ifs = false;
        }
        Rc::make_mut(&mut self.vars).insert(name.to_owned(), var);
    }

    pub(crate) fn home(&self) -> Option<&str> {
        match self.vars.get("HOME") {
            Some(Var::Scalar(val)) => val.known(),
            _ => None,
        }
    }

    /// Takes in what may have happened on another way to the same point: whatever differs is not known.
    pub(crate) fn join(&mut self, other: &State) {
        if !Rc::ptr_eq(&self.vars, &other.vars) && self.vars != other.vars {
            let names: Vec<String> = self
                .vars
                .keys()
                .chain(other.vars.keys())
                .filter(|name| self.vars.get(*name) != other.vars.get(*name))
                .cloned()
                .collect();
            let vars = Rc::make_mut(&mut self.vars);
            for name in names {
                vars.insert(name, Var::Unknown);
            }
        }
        if !Rc::ptr_eq(&self.functions, &other.functions) {
            let functions = Rc::make_mut(&mut self.functions);
            for (name, function) in other.functions.iter() {
                functions.entry(name.clone()).or_insert_with(|| function.clone());
            }
        }
        if !Rc::ptr_eq(&self.written, &other.written) {
            let written = Rc::make_mut(&mut self.written);
            for (path, what) in other.written.iter() {
                written.entry(path.clone()).or_insert_with(|| what.clone());
            }
        }
        if self.positional != other.positional {
            self.positional = None;
        }
        if self.cwd != other.cwd {
            self.cwd = None;
        }
        self.default_ifs &= other.default_ifs;
    }
}
