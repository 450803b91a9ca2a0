//! The desk: turns reports into functions, files and lines.
