//! Options and operands, as most programs read them.

use crate::value::{Arg, Val};

/// Which options of a program take a value in the next word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Letters.
    pub short: &'static str,
    /// Long names, with their dashes.
    pub long: &'static [&'static str],
}

/// One word of a command line, as the program would take it.
#[derive(Debug)]
pub enum Item<'a> {
    /// An option without its value, if that stands in another word: a letter with its dash, or a long name.
    Option {
        /// `-r`, `--recursive`.
        name: String,
        /// What is glued to it, or the next word.
        value: Option<Val>,
        /// The word.
        arg: &'a Arg,
    },
    /// Anything else.
    Operand(&'a Arg),
}

/// Takes a command line apart. What follows `--` are operands.
pub fn items(args: &[Arg], options: Options) -> Vec<Item<'_>> {
    let mut items = Vec::with_capacity(args.len());
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let prefix = arg.val.prefix();
        if arg.is("--") {
            items.extend(rest.by_ref().map(Item::Operand));
            break;
        }
        if prefix.starts_with("--") {
            match arg.val.split_once('=') {
                Some((name, value)) => {
                    items.push(Item::Option { name: name.to_owned(), value: Some(value), arg });
                }
                None => {
                    let takes = options.long.iter().any(|long| abbreviates(prefix, long));
                    let value = if takes { rest.next().map(|next| next.val.clone()) } else { None };
                    items.push(Item::Option { name: prefix.to_owned(), value, arg });
                }
            }
        } else if prefix.len() > 1 && prefix.starts_with('-') {
            for (at, letter) in prefix.char_indices().skip(1) {
                let name = format!("-{letter}");
                if options.short.contains(letter) {
                    let glued = arg.val.skip(at + letter.len_utf8());
                    let value = if glued.segs().is_empty() {
                        rest.next().map(|n| n.val.clone())
                    } else {
                        Some(glued)
                    };
                    items.push(Item::Option { name, value, arg });
                    break;
                }
                items.push(Item::Option { name, value: None, arg });
            }
        } else {
            items.push(Item::Operand(arg));
        }
    }
    items
}

/// The operands of a command line.
pub fn operands(args: &[Arg], options: Options) -> Vec<&Arg> {
    let only = |item| match item {
        Item::Operand(arg) => Some(arg),
        Item::Option { .. } => None,
    };
    items(args, options).into_iter().filter_map(only).collect()
}

/// Whether an option is given, by its letter or by its long name, which may be shortened.
pub fn has_option(args: &[Arg], options: Options, letter: char, long: &str) -> bool {
    items(args, options).iter().any(|item| match item {
        Item::Option { name, .. } => {
            (name.len() == 1 + letter.len_utf8() && name.ends_with(letter)) || abbreviates(name, long)
        }
        Item::Operand(_) => false,
    })
}

/// Whether `word` is `long`, or a beginning of it that can hardly be another option.
pub fn abbreviates(word: &str, long: &str) -> bool {
    word.len() >= 4 && word.starts_with("--") && long.starts_with(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringfence_bash::Span;

    #[test]
    fn clusters_values_and_double_dash() {
        let args: Vec<Arg> = ["-rfn", "3", "--out=x", "--recurs", "a", "--", "-b"]
            .map(|word| Arg::new(Val::text(word), Span::default()))
            .into();
        let options = Options { short: "n", long: &[] };
        let names: Vec<_> = operands(&args, options).iter().map(|arg| arg.show()).collect();
        assert_eq!(names, ["a", "-b"]);
        assert!(has_option(&args, options, 'r', "--recursive"));
        assert!(has_option(&args, options, 'z', "--recursive"));
        assert!(!has_option(&args, options, 'b', "--backup"));
    }
}
