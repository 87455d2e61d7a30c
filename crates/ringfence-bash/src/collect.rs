//! Lists of what a script holds, for callers that want no visitor.

use crate::span::Span;
use crate::tree::{Command, Redirect, Script, Simple};
use crate::walk::{Context, Substitution, Visitor, WordRole, walk};
use crate::word::Word;

/// A simple command and where it stands.
#[derive(Clone, Debug)]
pub struct SimpleRef<'t> {
    /// The command with its redirections.
    pub command: &'t Command,
    /// Its assignments and words.
    pub simple: &'t Simple,
    /// What it is inside of.
    pub context: Context<'t>,
}

impl SimpleRef<'_> {
    /// Returns the command's name, if there is one and it is literal.
    pub fn name(&self) -> Option<String> {
        self.simple.words.first().and_then(Word::as_literal)
    }
}

struct EachWord<F>(F);

impl<'t, F: FnMut(&Context<'t>, WordRole, &'t Word)> Visitor<'t> for EachWord<F> {
    fn word(&mut self, context: &Context<'t>, role: WordRole, word: &'t Word) {
        (self.0)(context, role, word);
    }
}

impl Script {
    /// Lists every simple command, at any depth.
    pub fn simple_commands(&self) -> Vec<SimpleRef<'_>> {
        struct Commands<'t>(Vec<SimpleRef<'t>>);
        impl<'t> Visitor<'t> for Commands<'t> {
            fn simple(&mut self, context: &Context<'t>, command: &'t Command, simple: &'t Simple) {
                self.0.push(SimpleRef { command, simple, context: context.clone() });
            }
        }
        let mut found = Commands(Vec::new());
        walk(self, &mut found);
        found.0
    }

    /// Calls `each` with every word, at any depth.
    pub fn for_each_word<'t>(&'t self, each: impl FnMut(&Context<'t>, WordRole, &'t Word)) {
        walk(self, &mut EachWord(each));
    }

    /// Lists every substitution, at any depth, with its span.
    pub fn substitutions(&self) -> Vec<(Span, Substitution<'_>)> {
        struct Substitutions<'t>(Vec<(Span, Substitution<'t>)>);
        impl<'t> Visitor<'t> for Substitutions<'t> {
            fn substitution(&mut self, _: &Context<'t>, span: Span, found: Substitution<'t>) {
                self.0.push((span, found));
            }
        }
        let mut found = Substitutions(Vec::new());
        walk(self, &mut found);
        found.0
    }

    /// Lists every redirection, at any depth.
    pub fn redirects(&self) -> Vec<(Context<'_>, &Redirect)> {
        struct Redirects<'t>(Vec<(Context<'t>, &'t Redirect)>);
        impl<'t> Visitor<'t> for Redirects<'t> {
            fn redirect(&mut self, context: &Context<'t>, redirect: &'t Redirect) {
                self.0.push((context.clone(), redirect));
            }
        }
        let mut found = Redirects(Vec::new());
        walk(self, &mut found);
        found.0
    }

    /// Lists what the parser read but does not understand. Unless this is empty, the
    /// tree does not tell all that the text does.
    pub fn unsupported(&self) -> Vec<(Span, &'static str)> {
        struct Found(Vec<(Span, &'static str)>);
        impl<'t> Visitor<'t> for Found {
            fn unsupported(&mut self, _: &Context<'t>, span: Span, construct: &'static str) {
                self.0.push((span, construct));
            }
        }
        let mut found = Found(Vec::new());
        walk(self, &mut found);
        found.0
    }
}
