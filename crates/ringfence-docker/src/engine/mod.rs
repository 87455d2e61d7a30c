//! The client: finding the engine, calls that end, errors for people.
