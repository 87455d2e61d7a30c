//! Files in a container, with nothing but `sh` inside.
