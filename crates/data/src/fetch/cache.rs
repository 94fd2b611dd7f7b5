use std::ffi::OsString;
use std::path::PathBuf;

use crate::Error;

/// Where datasets are kept: `$PACELINE_CACHE`, else `$XDG_CACHE_HOME/paceline`, else `~/.cache/paceline`.
pub fn cache_folder() -> Result<PathBuf, Error> {
    choose(|name| std::env::var_os(name))
}

fn choose(variable: impl Fn(&str) -> Option<OsString>) -> Result<PathBuf, Error> {
    let folder = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    folder("PACELINE_CACHE")
        .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("paceline")))
        .or_else(|| folder("HOME").map(|home| home.join(".cache").join("paceline")))
        .ok_or(Error::NoCacheFolder)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::choose;

    #[test]
    fn the_most_particular_variable_wins_and_an_empty_one_counts_for_nothing() {
        let with = |set: &'static [(&str, &str)]| {
            choose(|name| set.iter().find(|(of, _)| *of == name).map(|(_, value)| (*value).into()))
        };
        let all = with(&[("PACELINE_CACHE", "/p"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]).unwrap();
        assert_eq!(all, Path::new("/p"));
        assert_eq!(with(&[("XDG_CACHE_HOME", "/x"), ("HOME", "/h")]).unwrap(), Path::new("/x/paceline"));
        assert_eq!(with(&[("PACELINE_CACHE", ""), ("HOME", "/h")]).unwrap(), Path::new("/h/.cache/paceline"));
        assert!(with(&[]).is_err());
    }
}
