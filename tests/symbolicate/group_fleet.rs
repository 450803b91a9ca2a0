//! The example's fleet, small: the reports of one stall are one group, over builds that differ by closures, lines, names of
//! files, manglings and other compilers' suffixes; in Rust, in async Rust, in C++.

#[path = "../../tools/fleet/app.rs"]
mod app;
#[path = "../../tools/fleet/cpp.rs"]
mod cpp;
#[path = "../../tools/fleet/random.rs"]
mod random;
#[path = "../../tools/fleet/rust.rs"]
mod rust;
#[path = "../../tools/fleet/score.rs"]
mod score;
#[path = "../../tools/fleet/stalls.rs"]
mod stalls;
#[path = "../../tools/fleet/write.rs"]
mod write;

/// Groups of a small fleet of an app in this language.
fn measured(language: app::Language) -> score::Score {
    let folder = tempfile::tempdir().unwrap();
    let fleet = write::Fleet {
        language,
        // The compilers take most of the time.
        stalls: 40,
        // The third has every kind of change.
        versions: 3,
        count: 600,
        seed: 4711,
        per_file: 100,
    };
    fleet.write(folder.path()).unwrap();
    score::score(folder.path()).unwrap()
}

#[track_caller]
fn holds(language: app::Language) {
    let score = measured(language);
    assert!(score.precision >= 0.97 && score.recall >= 0.97, "{score:?}");
}

#[test]
fn one_stall_is_one_group_over_builds() {
    holds(app::Language::Plain);
}

#[test]
fn one_stall_of_async_functions_is_one_group_over_builds() {
    holds(app::Language::Async("limited"));
}

#[test]
fn one_stall_of_an_app_in_cpp_is_one_group_over_builds() {
    holds(app::Language::Cpp);
}
