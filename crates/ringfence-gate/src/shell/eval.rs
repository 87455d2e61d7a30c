//! Going over a text in the order in which a shell would.

use std::rc::Rc;

use ringfence_bash::{Command, CommandKind, Cond, Connector, Item, Pipeline, Script, Span, Value};

use super::command::{Assigned, Brief, Cmd, Input, Place, Redir};
use super::state::{Function, State, Var};
use crate::checks::Context;
use crate::value::{Arg, Val};

/// How many commands are followed, calls of functions and rounds of loops included.
const MOST_COMMANDS: u32 = 4_000;
/// How many items of a `for` are followed one by one.
const MOST_ITEMS: usize = 64;
/// How deep functions are followed.
const MOST_CALLS: usize = 8;
/// How deep texts within texts are followed.
const MOST_LEVELS: usize = 12;

/// The evaluator of one text and of all texts in it.
pub(crate) struct Eval<'g> {
    pub(crate) cx: Place<'g>,
    pub(crate) out: &'g mut Context,
    pub(crate) st: State,
    /// Where findings of an inner text are shown.
    pub(crate) outer: Option<Span>,
    pub(crate) input: Input,
    pub(crate) level: usize,
    /// The level at which this evaluator began.
    base: usize,
    calls: usize,
    commands: u32,
    definitions: usize,
    seen: Vec<Span>,
    defined: Vec<(Function, State)>,
    called: Vec<usize>,
}

impl<'g> Eval<'g> {
    pub(crate) fn new(cx: Place<'g>, cwd: Option<&str>, level: usize, out: &'g mut Context) -> Self {
        Self {
            cx,
            out,
            st: State::new(cx.home, cwd),
            outer: None,
            input: Input::default(),
            level,
            base: level,
            calls: 0,
            commands: 0,
            definitions: 0,
            seen: vec![],
            defined: vec![],
            called: vec![],
        }
    }

    /// Where something is shown.
    pub(crate) fn place(&self, span: Span) -> Span {
        self.outer.unwrap_or(span)
    }

    /// Reads the text that was handed in.
    pub(crate) fn text(&mut self, script: &Script) {
        self.script(script);
        self.uncalled(0);
        // The tree and what was read of it must agree; a part that was missed is never allowed.
        self.seen.sort_unstable();
        let missed = script.simple_commands().into_iter().map(|found| found.command.span);
        if let Some(span) = missed.into_iter().find(|span| self.seen.binary_search(span).is_err()) {
            self.out.trouble("not-judged", span, "this part could not be judged");
        }
    }

    /// Reads a text within the text. In the same shell, what it sets stays.
    pub(crate) fn nested(&mut self, text: &str, span: Span, positional: Option<Vec<Val>>, same_shell: bool) {
        if self.level >= MOST_LEVELS {
            self.out.trouble("too-deep", span, "texts within texts go too deep to be judged");
            return;
        }
        let script = match ringfence_bash::parse(text) {
            Ok(script) => script,
            Err(error) => {
                self.out.unreadable(&error, Some(span));
                return;
            }
        };
        self.out.script(&script, Some(span));
        let saved = (!same_shell).then(|| self.st.clone());
        let outer = self.outer.replace(span);
        let input = std::mem::take(&mut self.input);
        if let Some(values) = positional {
            self.st.positional = Some(Rc::new(values));
        }
        let first = self.defined.len();
        self.level += 1;
        self.script(&script);
        if !same_shell {
            self.uncalled(first);
        }
        self.level -= 1;
        self.outer = outer;
        self.input = input;
        if let Some(saved) = saved {
            self.st = saved;
        }
    }

    /// Reads the bodies of functions that were defined and never called: a later text may call them.
    fn uncalled(&mut self, first: usize) {
        let mut index = first;
        while index < self.defined.len() {
            let (function, state) = self.defined[index].clone();
            index += 1;
            if !self.called.contains(&function.id) {
                let saved = std::mem::replace(&mut self.st, state);
                self.st.positional = None;
                self.command(&function.body);
                self.st = saved;
            }
        }
        self.defined.truncate(first);
    }

    pub(crate) fn script(&mut self, script: &Script) -> Vec<Brief> {
        let mut briefs = vec![];
        for item in &script.items {
            if self.commands > MOST_COMMANDS {
                break;
            }
            briefs.extend(self.item(item));
            briefs.truncate(32);
        }
        briefs
    }

    fn item(&mut self, item: &Item) -> Vec<Brief> {
        let saved = item.background.then(|| self.st.clone());
        let mut briefs = self.pipeline(&item.first);
        if !item.rest.is_empty() {
            let mut ways = vec![self.st.clone()];
            for (connector, pipeline) in &item.rest {
                briefs.extend(self.pipeline(pipeline));
                if *connector == Connector::Or {
                    ways.push(self.st.clone());
                }
            }
            // A chain may stop at any point. That a `cd` in it works is taken for granted.
            let cwd = self.st.cwd.clone();
            ways.iter().for_each(|way| self.st.join(way));
            self.st.cwd = cwd;
        }
        if let Some(saved) = saved {
            self.st = saved;
        }
        briefs
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Vec<Brief> {
        if let [only] = pipeline.stages.as_slice() {
            return self.command(&only.command);
        }
        let mut upstream: Vec<Brief> = vec![];
        let mut last: Vec<Brief> = vec![];
        let before = self.input.clone();
        for (index, stage) in pipeline.stages.iter().enumerate() {
            if index > 0 {
                let text = match last.as_slice() {
                    [only] => only.output.clone(),
                    _ => None,
                };
                self.input = Input { upstream: Rc::new(upstream.clone()), text, file: None };
            }
            let saved = self.st.clone();
            last = self.command(&stage.command);
            // Files that a stage wrote are there for the commands that follow.
            let written = std::mem::take(&mut self.st.written);
            self.st = saved;
            self.st.written = written;
            if last.is_empty() {
                last.push(Brief { name: String::new(), foreign: false, output: None });
            }
            upstream.extend(last.iter().cloned());
            // What came long before matters only if it brought something from elsewhere.
            if upstream.len() > 32 {
                let foreign = upstream.iter().any(|brief| brief.foreign);
                upstream.drain(..upstream.len() - 32);
                upstream[0].foreign |= foreign;
            }
        }
        self.input = before;
        upstream
    }

    /// Whether too much was read already. Nothing more is then.
    fn exhausted(&mut self, span: Span) -> bool {
        if self.commands > MOST_COMMANDS {
            self.out.trouble("too-much", self.place(span), "there is too much here to judge");
        }
        self.commands > MOST_COMMANDS
    }

    pub(crate) fn command(&mut self, command: &Command) -> Vec<Brief> {
        self.commands += 1;
        if self.exhausted(command.span) {
            return vec![];
        }
        if let CommandKind::Simple(simple) = &command.kind {
            if self.level == self.base {
                self.seen.push(command.span);
            }
            return self.simple(command, simple);
        }
        let redirs = self.redirects(&command.redirects);
        let before = self.input.clone();
        if !redirs.is_empty() {
            self.redirect_input(&redirs);
            self.emit(&[], "", &[], &redirs, command.span);
        }
        let briefs = self.compound(command);
        self.input = before;
        briefs
    }

    fn compound(&mut self, command: &Command) -> Vec<Brief> {
        match &command.kind {
            CommandKind::Simple(_) => vec![],
            CommandKind::Subshell(script) => self.child(|eval| eval.script(script)),
            CommandKind::Group(script) => self.script(script),
            CommandKind::Arith(parts) => {
                self.parts_for_effect(parts);
                vec![]
            }
            CommandKind::Cond(cond) => {
                self.cond(cond);
                vec![]
            }
            CommandKind::If(branches) => {
                let mut briefs = vec![];
                let mut ways = vec![];
                for branch in &branches.branches {
                    self.script(&branch.condition);
                    let before = self.st.clone();
                    briefs.extend(self.script(&branch.body));
                    ways.push(std::mem::replace(&mut self.st, before));
                }
                if let Some(body) = &branches.otherwise {
                    briefs.extend(self.script(body));
                }
                ways.iter().for_each(|way| self.st.join(way));
                briefs
            }
            CommandKind::Loop(looped) => {
                self.forever(&looped.condition, looped.until, &looped.body, command.span);
                self.rounds(|eval| {
                    let mut briefs = eval.script(&looped.condition);
                    briefs.extend(eval.script(&looped.body));
                    briefs
                })
            }
            CommandKind::For(looped) => {
                let items = match &looped.words {
                    Some(words) => self.args(words),
                    None => vec![Arg::new(Val::unknown(), command.span)],
                };
                self.for_each(&looped.name, &items, &looped.body)
            }
            CommandKind::ArithFor(looped) => {
                self.parts_for_effect(&looped.header);
                self.rounds(|eval| eval.script(&looped.body))
            }
            CommandKind::Case(case) => {
                self.value(&case.subject);
                let before = self.st.clone();
                let mut ways = vec![];
                let mut briefs = vec![];
                for arm in &case.arms {
                    for pattern in &arm.patterns {
                        self.value(pattern);
                    }
                    briefs.extend(self.script(&arm.body));
                    ways.push(std::mem::replace(&mut self.st, before.clone()));
                }
                ways.iter().for_each(|way| self.st.join(way));
                briefs
            }
            CommandKind::Function(function) => {
                self.definitions += 1;
                let defined = Function { body: Rc::new((*function.body).clone()), id: self.definitions };
                let name = function.name.as_literal().unwrap_or_default();
                self.out.function(&name, &function.body, self.place(command.span));
                Rc::make_mut(&mut self.st.functions).insert(name, defined.clone());
                self.defined.push((defined, self.st.clone()));
                vec![]
            }
            CommandKind::Coproc(coproc) => {
                let briefs = self.child(|eval| eval.command(&coproc.body));
                let name =
                    coproc.name.as_ref().map_or(Some("COPROC".to_owned()), ringfence_bash::Word::as_literal);
                if let Some(name) = name {
                    // Descriptors of its pipes: which numbers they are does not matter.
                    self.st.set(&name, Var::Array(vec![Val::text("63"), Val::text("60")]));
                }
                briefs
            }
        }
    }

    fn child(&mut self, run: impl FnOnce(&mut Self) -> Vec<Brief>) -> Vec<Brief> {
        let saved = self.st.clone();
        let briefs = run(self);
        let written = std::mem::take(&mut self.st.written);
        self.st = saved;
        self.st.written = written;
        briefs
    }

    /// A loop: once as it begins; once more with all that a round changed unknown.
    fn rounds(&mut self, round: impl Fn(&mut Self) -> Vec<Brief>) -> Vec<Brief> {
        let before = self.st.clone();
        let briefs = round(self);
        let changed = self.st.vars != before.vars || self.st.cwd != before.cwd;
        self.st.join(&before);
        if changed {
            round(self);
            self.st.join(&before);
        }
        briefs
    }

    fn for_each(&mut self, name: &str, items: &[Arg], body: &Script) -> Vec<Brief> {
        self.assigned(name, &Val::unknown(), items.first().map_or(Span::default(), |item| item.span));
        let all_known = items.iter().all(|item| !item.val.has_unknown());
        if all_known && items.len() <= MOST_ITEMS {
            let mut briefs = vec![];
            let before = self.st.clone();
            for item in items {
                if self.commands > MOST_COMMANDS {
                    break;
                }
                self.st.set(name, Var::Scalar(item.val.clone()));
                briefs.extend(self.script(body));
                briefs.truncate(32);
            }
            if items.is_empty() {
                self.st.set(name, Var::Unknown);
                briefs = self.script(body);
            }
            self.st.join(&before);
            return briefs;
        }
        let plain =
            |item: &Arg| item.known().is_some_and(|text| !text.contains('/') && !text.starts_with('.'));
        let val = if items.iter().all(plain) { Val::star() } else { Val::unknown() };
        self.rounds(|eval| {
            eval.st.set(name, Var::Scalar(val.clone()));
            eval.script(body)
        })
    }

    fn forever(&mut self, condition: &Script, until: bool, body: &Script, span: Span) {
        let name = match condition.simple_commands().as_slice() {
            [only] => only.name(),
            _ => None,
        };
        let endless = match name.as_deref() {
            Some("true" | ":") => !until,
            Some("false") => until,
            _ => false,
        };
        if endless && body.items.iter().any(|item| item.background) {
            self.out.endless(self.place(span));
        }
    }

    fn cond(&mut self, cond: &Cond) {
        match cond {
            Cond::Or(terms) | Cond::And(terms) => terms.iter().for_each(|term| self.cond(term)),
            Cond::Not(term) | Cond::Group(term) => self.cond(term),
            Cond::Word(word) | Cond::Unary(_, word) => {
                self.value(word);
            }
            Cond::Binary(left, _, right) => {
                self.value(left);
                self.value(right);
            }
        }
    }

    /// A command substitution: what it writes, if known.
    pub(crate) fn substitution(&mut self, script: &Script) -> Val {
        let briefs = self.child(|eval| eval.script(script));
        let [Brief { output: Some(val), .. }] = briefs.as_slice() else { return Val::unknown() };
        match val.known() {
            Some(text) => Val::text(text.trim_end_matches('\n')),
            None => val.clone(),
        }
    }

    pub(crate) fn process_read(&mut self, script: &Script) {
        self.child(|eval| eval.script(script));
    }

    pub(crate) fn process_write(&mut self, script: &Script) {
        let before = self.input.clone();
        let unknown = Brief { name: String::new(), foreign: false, output: None };
        self.input = Input { upstream: Rc::new(vec![unknown]), text: None, file: None };
        self.child(|eval| eval.script(script));
        self.input = before;
    }

    /// Hands a command to the checks.
    pub(crate) fn emit(
        &mut self,
        args: &[Arg],
        name: &str,
        assigned: &[Assigned],
        redirs: &[Redir],
        span: Span,
    ) {
        let cmd = Cmd {
            args,
            name,
            assigned,
            redirs,
            input: &self.input,
            cwd: self.st.cwd.as_deref(),
            place: self.cx,
            span: self.outer.unwrap_or(span),
            level: self.level,
        };
        self.out.command(&cmd);
    }

    /// Follows a call of a function that the text defines.
    pub(crate) fn call(&mut self, function: &Function, args: &[Arg]) -> Vec<Brief> {
        self.called.push(function.id);
        if self.calls >= MOST_CALLS {
            return vec![];
        }
        self.calls += 1;
        let values = args.iter().map(|arg| arg.val.clone()).collect();
        let saved = self.st.positional.replace(Rc::new(values));
        let briefs = self.command(&Rc::clone(&function.body));
        self.st.positional = saved;
        self.calls -= 1;
        briefs
    }

    /// The value that an assignment gives, and its items if it is an array.
    pub(crate) fn assignment_value(&mut self, value: &Value) -> Var {
        match value {
            Value::Scalar(word) => Var::Scalar(self.value(word)),
            Value::Array(items) => {
                let mut keyed = false;
                let mut words = vec![];
                for item in items {
                    if let Some(index) = &item.index {
                        self.parts_for_effect(index);
                        keyed = true;
                    }
                    words.extend(self.args(std::slice::from_ref(&item.value)));
                }
                if keyed { Var::Unknown } else { Var::Array(words.into_iter().map(|arg| arg.val).collect()) }
            }
        }
    }
}
