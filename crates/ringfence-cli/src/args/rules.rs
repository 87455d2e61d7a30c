//! The command for rules about commands.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct Rules {
    #[command(subcommand)]
    pub(crate) command: RulesCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RulesCommand {
    /// Let commands pass without a question, or refuse them, from now on
    Add(AddRule),
    /// Take a rule back
    Remove(RemoveRule),
    /// List the rules that hold here
    List(ListRules),
    /// Say which rules a command matches; or try the examples of all rules
    Test(TestRules),
}

#[derive(Debug, Args)]
#[command(after_help = ADD_EXAMPLES)]
pub(crate) struct AddRule {
    /// A command line: program, sub-command, options in any order; behind ` # ` examples that are tried
    #[arg(value_name = "RULE")]
    pub(crate) rule: String,
    /// Refuse instead
    #[arg(long)]
    pub(crate) deny: bool,
}

const ADD_EXAMPLES: &str = "\
Examples:
  ringfence rules add 'git push'
  ringfence rules add --deny 'npm publish # match: npm publish --tag next | notMatch: npm pack'

The rule is written to your sandbox.json. Exit codes: 0 it holds, 2 it is not a rule.";

#[derive(Debug, Args)]
#[command(after_help = REMOVE_EXAMPLES)]
pub(crate) struct RemoveRule {
    /// The rule, as `ringfence rules list` shows it; its examples need not be said
    #[arg(value_name = "RULE")]
    pub(crate) rule: String,
}

const REMOVE_EXAMPLES: &str = "\
Examples:
  ringfence rules remove 'git push'

It is taken out of your sandbox.json. Exit codes: 0 taken back, 1 there is no such rule.";

#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct ListRules {
    /// Print one JSON value
    #[arg(long)]
    pub(crate) json: bool,
}

const LIST_EXAMPLES: &str = "\
Examples:
  ringfence rules list
  ringfence rules list --json | jq -r '.[].rule'";

#[derive(Debug, Args)]
#[command(after_help = TEST_EXAMPLES)]
pub(crate) struct TestRules {
    /// The command [default: the examples of all rules are tried]
    #[arg(value_name = "COMMAND", allow_hyphen_values = true)]
    pub(crate) command: Option<String>,
    /// Print one JSON value
    #[arg(long)]
    pub(crate) json: bool,
}

const TEST_EXAMPLES: &str = "\
Examples:
  ringfence rules test 'git push --force origin'
  ringfence rules test

Exit codes: 0 a rule matches, or all examples hold; 1 no rule matches; 2 an example does not hold.";
