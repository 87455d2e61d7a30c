//! Spans: in range, on character boundaries, and one inside the other.

use ringfence_bash::{
    Assignment, Command, Context, FrameKind, Part, Redirect, Script, Span, Visitor, Word, WordRole, walk,
};

struct Check<'s> {
    source: &'s str,
    wrong: Vec<String>,
}

impl Check<'_> {
    fn span(&mut self, context: &Context<'_>, span: Span, what: &str) {
        if span.start > span.end || span.text(self.source).is_none() {
            self.wrong.push(format!("{what} {span:?} is out of range"));
        }
        let outer = context.frames.last().map(|frame| frame.span);
        if outer.is_some_and(|outer| !outer.contains(span)) {
            self.wrong.push(format!("{what} {span:?} is outside of {outer:?}"));
        }
        for pair in context.frames.windows(2) {
            if pair[1].kind != FrameKind::HereDoc && !pair[0].span.contains(pair[1].span) {
                self.wrong.push(format!("{:?} is outside of {:?}", pair[1], pair[0]));
            }
        }
    }
}

impl<'t> Visitor<'t> for Check<'_> {
    fn command(&mut self, context: &Context<'t>, command: &'t Command) {
        self.span(context, command.span, "command");
    }

    fn assignment(&mut self, context: &Context<'t>, assignment: &'t Assignment) {
        self.span(context, assignment.span, "assignment");
    }

    fn word(&mut self, context: &Context<'t>, _role: WordRole, word: &'t Word) {
        self.span(context, word.span, "word");
        for part in &word.parts {
            if !word.span.contains(part.span) {
                self.wrong.push(format!("part {:?} is outside of its word {:?}", part.span, word.span));
            }
        }
    }

    fn part(&mut self, context: &Context<'t>, part: &'t Part) {
        self.span(context, part.span, "part");
    }

    fn redirect(&mut self, context: &Context<'t>, redirect: &'t Redirect) {
        self.span(context, redirect.span, "redirection");
    }
}

/// Lists what is wrong with the spans of a tree.
pub(super) fn wrong(source: &str, script: &Script) -> Vec<String> {
    let mut check = Check { source, wrong: Vec::new() };
    walk(script, &mut check);
    check.wrong
}

#[test]
fn spans_of_the_table_are_sound() {
    for case in super::commands::table() {
        if let Ok(script) = ringfence_bash::parse(&case.text) {
            let wrong = wrong(&case.text, &script);
            assert!(wrong.is_empty(), "{:?}: {wrong:#?}", case.text);
        }
    }
}

#[test]
fn a_backquoted_command_points_into_the_source() {
    let source = "echo `echo \\`rm x\\`` done";
    let script = ringfence_bash::parse(source).unwrap();
    let texts: Vec<_> =
        script.simple_commands().iter().map(|c| c.command.span.text(source).unwrap()).collect();
    assert_eq!(texts, [source, "echo \\`rm x\\`", "rm x"]);
}
