//! What git believes, in one place for the supervisor and for the file tools of the host.
//!
//! Whoever enters a directory on the host has git look for a repository, read its config and run what that names. git
//! takes a directory for one by what it holds ([`place`]), whatever it is called. So inside such a directory only what
//! is known to be data may be made ([`names`]), its config only with keys that run and fetch nothing ([`config`]), and
//! no directory becomes one while it holds anything else. A list of what is dangerous would never be complete.

pub mod config;
pub mod names;
pub mod place;
pub mod todo;
