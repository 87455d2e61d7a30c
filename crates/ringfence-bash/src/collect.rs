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

#[cfg(test)]
mod tests {
    use crate::tree::Pipe;
    use crate::walk::{FrameKind, WordRole};
    use crate::word::SubStyle;

    fn frames(text: &str, name: &str) -> String {
        let script = crate::parse(text).unwrap();
        let commands = script.simple_commands();
        let found = commands.iter().find(|command| command.name().as_deref() == Some(name)).unwrap();
        let words = found.context.frames.iter().map(|frame| match frame.kind {
            FrameKind::Pipeline { index, len, negated, .. } => {
                format!("{}{}/{len}", if negated { "!" } else { "" }, index + 1)
            }
            FrameKind::Function(name) => format!("function {}", name.as_literal().unwrap()),
            kind => format!("{kind:?}").to_lowercase(),
        });
        words.collect::<Vec<_>>().join(" > ")
    }

    #[test]
    fn context_tells_where_a_command_stands() {
        for (text, want) in [
            ("id", "1/1"),
            ("a | id | b", "2/3"),
            ("! id", "!1/1"),
            ("a && id", "andor(and) > 1/1"),
            ("a || id &", "background > andor(or) > 1/1"),
            ("(id)", "1/1 > subshell > 1/1"),
            ("f() { id; }", "1/1 > function f > group > 1/1"),
            ("if id; then a; fi", "1/1 > condition > 1/1"),
            ("if a; then id; fi", "1/1 > branch > 1/1"),
            ("while a; do id; done", "1/1 > loop > 1/1"),
            ("case x in x) id;; esac", "1/1 > branch > 1/1"),
            ("echo \"$(id)\"", "1/1 > doublequote > cmdsub(paren) > 1/1"),
            ("echo `id`", "1/1 > cmdsub(backquote) > 1/1"),
            ("cat <(id)", "1/1 > procsub(read) > 1/1"),
            ("echo ${x:-$(id)}", "1/1 > paramarg > cmdsub(paren) > 1/1"),
            ("echo $(( $(id) ))", "1/1 > arith > cmdsub(paren) > 1/1"),
            ("cat <<E\n$(id)\nE", "1/1 > heredoc > cmdsub(paren) > 1/1"),
            ("[[ $(id) ]]", "1/1 > cond > cmdsub(paren) > 1/1"),
            ("a=($(id))", "1/1 > array > cmdsub(paren) > 1/1"),
            ("coproc id", "1/1 > coproc"),
        ] {
            assert_eq!(frames(text, "id"), want, "{text}");
        }
    }

    #[test]
    fn context_answers_questions() {
        let script = crate::parse("f() { a |& b && $(c); }").unwrap();
        let commands = script.simple_commands();
        let context =
            |name: &str| &commands.iter().find(|c| c.name().as_deref() == Some(name)).unwrap().context;
        assert_eq!(context("c").function().unwrap().bare(), Some("f"));
        assert!(context("c").in_substitution() && !context("b").in_substitution());
        assert!(context("a").in_child() && context("a").is_conditional());
        let pipe = Some(Pipe::StdoutAndStderr);
        let kind = |name: &str| context(name).pipeline().unwrap().kind;
        assert!(
            matches!(kind("b"), FrameKind::Pipeline { index: 1, len: 2, from, into: None, .. } if from == pipe)
        );
        assert!(matches!(kind("a"), FrameKind::Pipeline { index: 0, from: None, into, .. } if into == pipe));
        assert!(context("c").inside(|kind| *kind == FrameKind::CmdSub(SubStyle::Paren)));
    }

    #[test]
    fn lists_words_redirections_and_substitutions() {
        let script = crate::parse("a b >c <<E $(d) \"$(e 2>f)\"\n`g`\nE\n").unwrap();
        let mut words = Vec::new();
        script.for_each_word(|_, role, word| words.push((role, word.as_literal().unwrap_or_default())));
        let count = |role: WordRole| words.iter().filter(|(found, _)| *found == role).count();
        assert_eq!(count(WordRole::Name), 4);
        assert_eq!(count(WordRole::Argument), 3);
        assert_eq!(count(WordRole::Target), 2);
        assert_eq!(count(WordRole::Delimiter), 1);
        assert_eq!(count(WordRole::HereDoc), 1);
        assert_eq!(script.redirects().len(), 3);
        assert_eq!(script.substitutions().len(), 3);
        assert!(script.unsupported().is_empty());
    }
}
