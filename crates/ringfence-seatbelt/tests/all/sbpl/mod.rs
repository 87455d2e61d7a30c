//! A reader and evaluator of the part of the profile language that our profiles use.
//!
//! It is strict where the real one may be lenient: an unknown operation, filter or expression is an
//! error here, so that a profile cannot pass by being misunderstood.

mod evaluate;
mod expression;
mod reader;

pub(crate) use evaluate::{Profile, Subject};
pub(crate) use expression::Expression;
pub(crate) use reader::{Node, read};
