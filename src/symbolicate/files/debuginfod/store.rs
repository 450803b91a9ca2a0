//! Addresses of a debug file on a server, by the layout of its store.
//!
//! Unified: `ab/cdef…/debuginfo`, by the id's digits. SymSrv, as LLDB, Sentry and Breakpad's tools know it:
//! `NAME/KEY/NAME`, where a debug file is named by its id alone (`_.dwarf/mach-uuid-sym-…/_.dwarf`,
//! `_.debug/elf-buildid-sym-…/_.debug`).

use crate::symbolicate::frame::hex;

/// Bytes of a Mach-O file's id.
const UUID: usize = 16;

/// The addresses at which a server may have the debug file with this id.
pub(super) fn addresses(server: &str, id: &[u8]) -> Vec<String> {
    let digits = hex(id);
    let at = |server: &str, path: String| {
        let scheme = ["http://", ""][usize::from(server.contains("://"))];
        format!("{scheme}{}/{path}", server.trim_end_matches('/'))
    };
    if let Some(server) = server.strip_prefix("unified+") {
        let (first, rest) = digits.split_at(digits.len().min(2));
        return vec![at(server, format!("{first}/{rest}/debuginfo"))];
    }
    if let Some(server) = server.strip_prefix("symsrv+") {
        let elf = format!("_.debug/elf-buildid-sym-{digits}/_.debug");
        let mach_o = format!("_.dwarf/mach-uuid-sym-{digits}/_.dwarf");
        let all = [Some(mach_o).filter(|_| id.len() == UUID), Some(elf)];
        let all = all.into_iter().flatten();
        return all.map(|path| at(server, path)).collect();
    }
    vec![at(server, format!("buildid/{digits}/debuginfo"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_layout_has_its_addresses() {
        let id = [0xab; 20];
        let digits = "ab".repeat(20);
        let rest = "ab".repeat(19);
        for (server, expected) in [
            (
                "https://a/",
                format!("https://a/buildid/{digits}/debuginfo"),
            ),
            ("a:80", format!("http://a:80/buildid/{digits}/debuginfo")),
            (
                "unified+https://a",
                format!("https://a/ab/{rest}/debuginfo"),
            ),
            (
                "symsrv+https://a",
                format!("https://a/_.debug/elf-buildid-sym-{digits}/_.debug"),
            ),
        ] {
            assert_eq!(addresses(server, &id), [expected]);
        }
        let mach_o = addresses("symsrv+https://a", &[0xcd; 16]);
        let digits = "cd".repeat(16);
        assert_eq!(
            mach_o[0],
            format!("https://a/_.dwarf/mach-uuid-sym-{digits}/_.dwarf")
        );
        assert_eq!(mach_o.len(), 2);
    }
}
