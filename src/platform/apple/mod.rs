//! Apple: what `platform` offers, by Mach and libc.
