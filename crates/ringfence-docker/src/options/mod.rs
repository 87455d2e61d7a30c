//! The configuration, checked: what a container is made of, its name and its hash.
