//! The one thing the file bridge needs: a script run in a container.
