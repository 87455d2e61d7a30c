//! Text → s-expressions.

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Symbol(String),
    Text(String),
    List(Vec<Node>),
}

/// Reads all expressions of a profile.
pub(crate) fn read(text: &str) -> Result<Vec<Node>, String> {
    let mut reader = Reader { rest: text };
    let mut nodes = Vec::new();
    while reader.skip_blank() {
        nodes.push(reader.node()?);
    }
    Ok(nodes)
}

struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    /// Skips blanks and comments; false at the end.
    fn skip_blank(&mut self) -> bool {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with(';') {
                return !self.rest.is_empty();
            }
            self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }

    fn node(&mut self) -> Result<Node, String> {
        match self.rest.chars().next() {
            Some('(') => self.list(),
            Some('"') => self.text(),
            Some(')') => Err("a ) without its (".to_owned()),
            _ => self.symbol(),
        }
    }

    fn list(&mut self) -> Result<Node, String> {
        self.rest = &self.rest[1..];
        let mut nodes = Vec::new();
        loop {
            if !self.skip_blank() {
                return Err("a ( without its )".to_owned());
            }
            if let Some(rest) = self.rest.strip_prefix(')') {
                self.rest = rest;
                return Ok(Node::List(nodes));
            }
            nodes.push(self.node()?);
        }
    }

    fn text(&mut self) -> Result<Node, String> {
        let mut text = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(Node::Text(text));
                }
                '\\' => match chars.next() {
                    Some((_, c @ ('"' | '\\'))) => text.push(c),
                    other => return Err(format!("an unknown escape: {other:?}")),
                },
                c if c.is_control() => return Err("a control character in a string".to_owned()),
                c => text.push(c),
            }
        }
        Err("a string without its end".to_owned())
    }

    fn symbol(&mut self) -> Result<Node, String> {
        let end =
            self.rest.find(|c: char| c.is_whitespace() || "()\";".contains(c)).unwrap_or(self.rest.len());
        let (symbol, rest) = self.rest.split_at(end);
        if !symbol.bytes().all(|b| b.is_ascii_alphanumeric() || b"-*".contains(&b)) {
            return Err(format!("an odd symbol: {symbol:?}"));
        }
        self.rest = rest;
        Ok(Node::Symbol(symbol.to_owned()))
    }
}

#[test]
fn expressions_are_read() {
    let nodes = read("; c (\n(a \"b \\\"\\\\(\" (c*)) ; end\n").unwrap();
    assert_eq!(
        nodes,
        [Node::List(vec![
            Node::Symbol("a".to_owned()),
            Node::Text("b \"\\(".to_owned()),
            Node::List(vec![Node::Symbol("c*".to_owned())]),
        ])]
    );
    for bad in ["(", ")", "(a \"b)", "\"\\n\"", "(a 'b)", "\"a\nb\""] {
        assert!(read(bad).is_err(), "{bad:?}");
    }
}
