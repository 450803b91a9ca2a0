//! The example's fleet, small: the reports of one stall are one group, over builds that differ by closures, lines, names of
//! files, manglings and other compilers' suffixes.

#[path = "../../examples/fleet/app.rs"]
mod app;
#[path = "../../examples/fleet/random.rs"]
mod random;
#[path = "../../examples/fleet/score.rs"]
mod score;
#[path = "../../examples/fleet/stalls.rs"]
mod stalls;
#[path = "../../examples/fleet/write.rs"]
mod write;

#[test]
fn one_stall_is_one_group_over_builds() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = write::Fleet {
        count: 1500,
        seed: 4711,
        per_file: 100,
    };
    fleet.write(folder.path()).unwrap();
    let score = score::score(folder.path()).unwrap();
    assert!(score.precision >= 0.97 && score.recall >= 0.97, "{score:?}");
}
