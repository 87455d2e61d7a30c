//! The command as a person uses it: the built program, in a home and a project of its own.
#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "helpers of tests")]

mod suite {
    pub(crate) mod approval;
    pub(crate) mod cli_config;
    pub(crate) mod cli_doctor;
    pub(crate) mod cli_explain;
    pub(crate) mod cli_grants;
    pub(crate) mod cli_help;
    pub(crate) mod cli_records;
    pub(crate) mod support;
}
