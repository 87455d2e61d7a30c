//! Redirections, and where standard input comes from.

use ringfence_bash::{Fd, HereDoc, PartKind, Redirect, RedirectOp, Target};

use super::command::{Input, Redir};
use super::eval::Eval;
use super::state::Var;
use crate::value::{Arg, Val};

impl Eval<'_> {
    pub(crate) fn redirects(&mut self, redirects: &[Redirect]) -> Vec<Redir> {
        redirects.iter().map(|redirect| self.redirect(redirect)).collect()
    }

    fn redirect(&mut self, redirect: &Redirect) -> Redir {
        match &redirect.fd {
            Some(Fd::Element(_, index)) => self.parts_for_effect(index),
            Some(Fd::Variable(name)) => self.st.set(name, Var::Unknown),
            Some(Fd::Number(_)) | None => {}
        }
        let span = self.place(redirect.span);
        let mut redir =
            Redir { op: redirect.op, target: None, text: None, delimiter: None, expands: false, span };
        match &redirect.target {
            Target::Word(word) if redirect.op == RedirectOp::HereString => {
                redir.text = Some(self.value(word));
            }
            Target::Word(word) => {
                let mut fields = self.args(std::slice::from_ref(word));
                let single = if fields.len() == 1 { fields.pop() } else { None };
                redir.target = Some(single.unwrap_or_else(|| Arg::new(Val::unknown(), span)));
            }
            Target::Close => {}
            Target::HereDoc(doc) => self.here_doc(doc, &mut redir),
        }
        redir
    }

    fn here_doc(&mut self, doc: &HereDoc, redir: &mut Redir) {
        let body = doc.body();
        redir.expands = !doc.quoted && body.parts.iter().any(|part| !matches!(part.kind, PartKind::Lit(_)));
        redir.text = Some(self.body(body));
        redir.delimiter = Some((doc.end_line.clone(), doc.quoted));
    }

    /// Takes standard input from redirections, if they set it.
    pub(crate) fn redirect_input(&mut self, redirs: &[Redir]) {
        use RedirectOp as Op;
        for redir in redirs {
            match redir.op {
                Op::HereDoc | Op::HereString => {
                    // Several here-documents: the last is read, but all are looked at.
                    let mut text = redir.text.clone().unwrap_or_default();
                    if let Some(before) = self.input.text.take().filter(|_| self.input.upstream.is_empty()) {
                        let last = std::mem::replace(&mut text, before);
                        text.push_text("\n");
                        text.extend(&last);
                    }
                    self.input = Input { text: Some(text), ..Input::default() };
                }
                Op::Read | Op::ReadWrite => {
                    self.input = Input { file: redir.target.clone(), ..Input::default() };
                }
                _ => {}
            }
        }
    }
}
