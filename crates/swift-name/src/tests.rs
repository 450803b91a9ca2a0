//! Names as Swift's own demangler prints them, names that end demanglers, and what a name leads to.

use super::*;

/// The lines of a table that differ from Swift's own demangler, and how many there are. An empty second column is a name that
/// it does not take.
fn differences(table: &str) -> (Vec<String>, usize) {
    let mut all = 0;
    let mut different = Vec::new();
    for line in table.lines() {
        let mut columns = line.split('\t');
        let name = columns.next().unwrap_or_default();
        let expected = columns.next().unwrap_or_default();
        let found = simplified(name).unwrap_or_default();
        if found != expected && without_additions(&found) != expected {
            different.push(format!("{name}: {found:?}, not {expected:?}"));
        }
        all += 1;
    }
    (different, all)
}

/// Swift's own form has no word for merged functions, and no labels of a subscript where it names an accessor.
fn without_additions(text: &str) -> String {
    let text = text.replacen("merged ", "", 1);
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some((front, labels)) = rest.split_once("subscript(") {
        let end = labels.find(").").unwrap_or(labels.len());
        let after = labels.get(end + 1..);
        out.push_str(front);
        out.push_str(if after.is_some() {
            "subscript"
        } else {
            "subscript("
        });
        rest = after.unwrap_or(labels);
    }
    out + rest
}

#[test]
fn merged_functions_say_so() {
    let merged = simplified("_$S3abc6testityySiFTm");
    assert_eq!(merged.as_deref(), Some("merged testit(_:)"));
}

#[test]
fn labels_of_a_subscript_are_part_of_the_names_of_its_accessors() {
    for (name, expected) in [
        ("$s4main4GridV3rowS2i_tcig", "Grid.subscript(row:).getter"),
        (
            "$s4main4GridV6columnS2i_tcig",
            "Grid.subscript(column:).getter",
        ),
        (
            "$s4main4GridV3row6columnS2i_Sitcis",
            "Grid.subscript(row:column:).setter",
        ),
        (
            "$s4main4GridV3row_S2i_SitciM",
            "Grid.subscript(row:_:).modify",
        ),
        ("$s4main4GridVyS2icig", "Grid.subscript.getter"),
    ] {
        assert_eq!(simplified(name).as_deref(), Some(expected), "{name}");
        let summary = SwiftName::parse(name).expect(name).summary();
        assert_eq!(summary.function.as_deref(), Some(expected), "{name}");
    }
}

/// Each pair of a part and a part within it that occurs in 300,000 names, and names that are damaged.
#[test]
fn names_are_printed_as_swift_prints_them() {
    let table = include_str!("../testdata/sample.tsv");
    let (different, all) = differences(table);
    assert_eq!(different, [""; 0]);
    assert!(all > 400, "{all}");
}

/// `WEDJAT_MANGLINGS` names a folder of such tables.
#[test]
#[ignore = "needs WEDJAT_MANGLINGS"]
fn whole_tables_are_printed_as_swift_prints_them() {
    let folder = std::env::var("WEDJAT_MANGLINGS").expect("WEDJAT_MANGLINGS names a folder");
    let mut tables = 0;
    for (file, least) in [("real.tsv", 0.999), ("odd.tsv", 0.97)] {
        let path = std::path::Path::new(&folder).join(file);
        let table = std::fs::read_to_string(&path).expect("a table");
        let (different, all) = differences(&table);
        let equal = (all - different.len()) as f64 / all as f64;
        println!("{file}: {:.4} % of {all} equal", 100.0 * equal);
        assert!(equal >= least, "{file}: {equal}: {different:#?}");
        tables += 1;
    }
    assert_eq!(tables, 2);
}

#[test]
fn a_leading_underscore_makes_no_difference() {
    for name in [
        "$s4main3fooyyF",
        "$S4main3fooyyF",
        "$e4main3fooyyF",
        "_T04main3fooyyF",
    ] {
        let with_underscore = format!("_{name}");
        assert_eq!(simplified(name).as_deref(), Some("foo()"), "{name}");
        assert_eq!(simplified(&with_underscore).as_deref(), Some("foo()"));
    }
    assert_eq!(simplified("__TtC4main3App").as_deref(), Some("App"));
}

/// Names by which demanglers have died, and others' names.
#[test]
fn what_is_no_name_gives_none() {
    for name in [
        "$s1s1aLLfMf",
        "$s",
        "$S",
        "_T",
        "_T0",
        "_Thread",
        "_TIFFOpen",
        // Functions of Swift 3, and a type whose context is one.
        "_TF4main3fooFT_T_",
        "_TtCF4main3fooFT_T_L_3Bar",
        "_TtC4main3AppFoo",
        "_TtC4main9App",
        "_TtC4main3\u{e9}\u{e9}",
        "_TtP4main3AppS9_3App_",
        "main",
        "$s4main3foo\0yyF",
        "$s\u{1}abcd",
        "$s99999999999999999999a",
        "$s4ma\u{e9}\u{e9}3fooyyF",
        "_ZN3foo3barEv",
    ] {
        assert_eq!(simplified(name), None, "{name:?}");
    }
    // A variable of no module.
    assert_eq!(simplified("$s1a1bySivp").as_deref(), Some("b"));
}

/// Types twice as large with each step, and the text of each.
#[test]
fn names_that_double_are_none() {
    let mut name = "$s1a1bV".to_owned();
    for letter in ('C'..='Y').chain(std::iter::repeat_n('Y', 40)) {
        name.push_str(&format!("ACyA{letter}A{letter}G"));
    }
    assert_eq!(simplified(&name), None);
    let words = format!(
        "$s{}{}3fooyyF",
        "20AbcdefghijAbcdefghij0",
        "a".repeat(60_000)
    );
    assert_eq!(simplified(&words), None);
    let repeats = format!("$sSi{}tD", "A2048A".repeat(4_000));
    assert_eq!(simplified(&repeats), None);
    let standard = format!("$s{}tD", "S2048i".repeat(4_000));
    assert_eq!(simplified(&standard), None);
}

#[test]
fn deep_names_end() {
    for (open, inner, close, levels) in [
        ("", "Si", "Sg", 30_000),
        ("Say", "Si", "G", 10_000),
        ("", "yycD", "SgD", 5_000),
        ("1a1bV", "", "1cV", 10_000),
        ("", "4main3fooyyF", "yycfU_", 5_000),
    ] {
        let name = format!("$s{}{inner}{}", open.repeat(levels), close.repeat(levels));
        assert_eq!(simplified(&name), None, "{open} {close}");
    }
    let nested = |levels| format!("_Tt{}1a{}", "C".repeat(levels), "1b".repeat(levels));
    assert_eq!(simplified(&nested(10_000)), None);
    assert!(simplified(&nested(60)).is_some());
    // What people write is printed.
    let deep = format!("$s{}Si{}D", "Say".repeat(60), "G".repeat(60));
    assert_eq!(
        simplified(&deep),
        Some(format!("{}Int{}", "[".repeat(60), "]".repeat(60)))
    );
}

#[test]
fn a_summary_has_the_function_that_a_name_leads_to() {
    use Role::{Closure, Function, Glue};
    for (name, role, module, function) in [
        ("$s4main3fooyyF", Function, "main", "foo()"),
        (
            "$s4main3fooyySiFyyXEfU_TA.1",
            Closure,
            "main",
            "closure in foo(_:)",
        ),
        (
            "$s5Actor02MyA0C17testAsyncFunctionyyYaKFTQ1_",
            Function,
            "Actor",
            "MyActor.testAsyncFunction()",
        ),
        ("$s4main1fSiyYaFTY0_", Function, "main", "f()"),
        ("_$S3abc6testityySiFTm", Function, "abc", "testit(_:)"),
        (
            "_$s3foo3barC3bas3zimyAaEC_tFTo",
            Function,
            "foo",
            "bar.bas(zim:)",
        ),
        // Of the standard library, compiled into the app.
        (
            "$eSlsE20_failEarlyRangeCheck_6boundsy5IndexQz_SnyADGtFSnySiG_Tt1g5",
            Function,
            "Swift",
            "Collection._failEarlyRangeCheck(_:bounds:)",
        ),
        (
            "_$e6Shapes5totalySix_xt_tAA5ShapeRzlFAA4RingV_Tg5",
            Function,
            "Shapes",
            "total<A>(_:)",
        ),
        // An extension's module is not its type's.
        (
            "$s11def_structA1AV11ext_structAE4testyyF",
            Function,
            "ext_structA",
            "A.test()",
        ),
        (
            "$e4main7FailureOSQAASQ2eeoiySbx_xtFZTW",
            Function,
            "main",
            "static Failure.== infix(_:_:)",
        ),
        (
            "_T0s18EnumeratedIteratorVyxGs8Sequencess0B8ProtocolRzlsADP5splitSay03SubC0QzGSi9maxSplits_Sb25omittingEmptySubsequencesSb7ElementQzKc14whereSeparatortKFTW",
            Function,
            "Swift",
            "EnumeratedIterator.split(maxSplits:omittingEmptySubsequences:whereSeparator:)",
        ),
        (
            "_$e4main6CanvasCyS2icig",
            Function,
            "main",
            "Canvas.subscript.getter",
        ),
        ("$sIeg_IyB_TR", Glue, "", ""),
        ("_$e6Shapes6CanvasCN", Glue, "Shapes", ""),
    ] {
        let found = SwiftName::parse(name).expect(name).summary();
        assert_eq!(found.role, role, "{name}");
        assert_eq!(found.module.unwrap_or_default(), module, "{name}");
        assert_eq!(found.function.unwrap_or_default(), function, "{name}");
    }
}

#[test]
fn a_summary_says_how_a_name_leads_there() {
    let summary = |name| SwiftName::parse(name).expect(name).summary();
    assert!(summary("_$e6Shapes5totalySix_xt_tAA5ShapeRzlFAA4RingV_Tg5").is_specialized);
    assert!(summary("_$s3foo3barC3bas3zimyAaEC_tFTo").is_thunk);
    assert!(summary("$s4main3fooyySiFyyXEfU_TA.1").is_thunk);
    assert!(summary("$s4main1fSiyYaFTY0_").is_async_part);
    assert!(summary("_$S3abc6testityySiFTm").is_merged);
    let plain = summary("$s4main3fooyyF");
    assert!(!plain.is_specialized && !plain.is_thunk && !plain.is_async_part && !plain.is_merged);
}
