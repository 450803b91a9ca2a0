//! The folder in which the system wants an app's own state, and the reports in it.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Returns the folder for the reports of `app`, or `None` without a home folder, or where `app` is not the name of one
/// folder.
pub(super) fn reports_of(app: &str) -> Option<PathBuf> {
    reports_in(app, |variable| std::env::var_os(variable))
}

fn reports_in(app: &str, variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let mut parts = Path::new(app).components();
    let is_name = matches!(parts.next(), Some(Component::Normal(_))) && parts.next().is_none();
    // A relative path would depend on the current folder; the XDG specification says to ignore it.
    let folder = |name: &str| {
        let path = PathBuf::from(variable(name)?);
        path.is_absolute().then_some(path)
    };
    let state = if cfg!(target_vendor = "apple") {
        folder("HOME").map(|home| home.join("Library/Application Support"))
    } else {
        let in_home = || folder("HOME").map(|home| home.join(".local/state"));
        folder("XDG_STATE_HOME").or_else(in_home)
    };
    state
        .filter(|_| is_name)
        .map(|state| state.join(app).join("reports"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(app: &str, variables: &[(&str, &str)]) -> Option<PathBuf> {
        reports_in(app, |wanted| {
            let mut all = variables.iter();
            let (_, value) = all.find(|(name, _)| *name == wanted)?;
            Some(value.into())
        })
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn on_linux_reports_lie_in_the_state_folder_of_the_xdg_specification() {
        let home = ("HOME", "/home/ann");
        let in_home = Some(PathBuf::from("/home/ann/.local/state/myapp/reports"));
        assert_eq!(reports("myapp", &[home]), in_home);
        for ignored in ["", "state", "./state"] {
            let variables = [home, ("XDG_STATE_HOME", ignored)];
            assert_eq!(reports("myapp", &variables), in_home, "{ignored:?}");
        }
        let state = [home, ("XDG_STATE_HOME", "/var/state")];
        let expected = PathBuf::from("/var/state/myapp/reports");
        assert_eq!(reports("myapp", &state), Some(expected));
    }

    #[cfg(target_vendor = "apple")]
    #[test]
    fn on_apple_platforms_reports_lie_in_application_support() {
        let expected = "/Users/ann/Library/Application Support/org.example.app/reports";
        let variables = [("HOME", "/Users/ann"), ("XDG_STATE_HOME", "/var/state")];
        assert_eq!(
            reports("org.example.app", &variables),
            Some(expected.into())
        );
    }

    #[test]
    fn without_a_home_or_a_name_there_is_no_folder() {
        assert_eq!(reports("myapp", &[]), None);
        assert_eq!(reports("myapp", &[("HOME", "ann")]), None);
        for name in ["", ".", "..", "../app", "a/b", "/etc"] {
            assert_eq!(reports(name, &[("HOME", "/home/ann")]), None, "{name:?}");
        }
    }
}
