//! Seccomp programs.
