//! The identity of a run, which outlives its masters: the key that workers pin, and the token that they show.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use super::{MasterIdentity, Token, TrustError, hex};

/// More than any key and token need.
const LARGEST: u64 = 16 << 10;

/// The authority of a run and its token, as a file keeps them for all masters of the run.
pub struct RunIdentity {
    /// The authority.
    pub master: MasterIdentity,
    /// What workers must show.
    pub token: Token,
}

impl RunIdentity {
    /// The identity in a file; if there is none, a new one is written, which only its owner can read. A token that is given must
    /// be the one in the file.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or written, holds something else, can be read by others, or holds another token.
    pub fn open(path: &Path, token: Option<&Token>) -> Result<Self, TrustError> {
        let text = match read(path)? {
            Some(text) => text,
            None => {
                let master = MasterIdentity::new()?;
                let token = token.cloned().map_or_else(Token::random, Ok)?;
                let key = hex::encode(&master.reveal_bytes());
                write(path, &format!("key {key}\ntoken {}\n", token.reveal()))?;
                // Another master of the run may have been faster.
                read(path)?.ok_or_else(|| bad(path, "an identity", "nothing, although one was just written"))?
            }
        };
        let (mut key, mut kept) = (None, None);
        for line in text.lines() {
            match line.split_once(' ') {
                Some(("key", value)) => key = Some(hex::decode(value, "key of a master")?),
                Some(("token", value)) => kept = Some(Token::parse(value)?),
                _ => return Err(bad(path, "lines with a key and a token", "another line")),
            }
        }
        let expected = "a line with a key and a line with a token";
        let (key, kept) = key.zip(kept).ok_or_else(|| bad(path, expected, "less than that"))?;
        if token.is_some_and(|token| !kept.matches(token.reveal_bytes())) {
            let found = "another one: leave `--token-file` out, or begin the run with another identity";
            return Err(bad(path, "the token that was given", found));
        }
        Ok(Self { master: MasterIdentity::from_bytes(&key)?, token: kept })
    }
}

fn bad(path: &Path, expected: &str, found: &str) -> TrustError {
    TrustError::BadIdentityFile { path: path.display().to_string(), expected: expected.into(), found: found.into() }
}

/// None if there is no such file.
fn read(path: &Path) -> Result<Option<String>, TrustError> {
    let failed = |error: std::io::Error| bad(path, "to read it", &error.to_string());
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let about = file.metadata().map_err(failed)?;
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        if about.permissions().mode() & 0o077 != 0 {
            let found = format!("that others can, too: run `chmod 600 {}`", path.display());
            return Err(bad(path, "that only its owner can read it", &found));
        }
    }
    if about.len() > LARGEST {
        return Err(bad(path, "a key and a token", &format!("{} bytes", about.len())));
    }
    let mut text = String::new();
    file.take(LARGEST).read_to_string(&mut text).map_err(failed)?;
    Ok(Some(text))
}

/// Writes a file that only its owner can read, whole or not at all. One that is there already stays.
fn write(path: &Path, text: &str) -> Result<(), TrustError> {
    let failed = |error: std::io::Error| bad(path, "to write it", &error.to_string());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".identity").tempfile_in(folder).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(failed)?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(()),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed(error.error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_the_same_whenever_it_is_opened() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("identity");
        let first = RunIdentity::open(&path, None).expect("a new one");
        let again = RunIdentity::open(&path, Some(&first.token)).expect("the same");
        assert_eq!(first.master.fingerprint(), again.master.fingerprint());
        assert!(first.token.matches(again.token.reveal_bytes()));
        let other = Token::random().expect("randomness");
        let error = RunIdentity::open(&path, Some(&other)).err().expect("another token").to_string();
        assert!(error.contains("token") && !error.contains(&other.reveal()), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_or_that_holds_something_else_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("identity");
        RunIdentity::open(&path, None).expect("a new one");
        let allow = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
        allow(0o640);
        let error = RunIdentity::open(&path, None).err().expect("open to others").to_string();
        assert!(error.contains("chmod 600"), "{error}");
        allow(0o600);
        for text in ["", "key 00", "token 00112233445566778899aabbccddeeff\n", "hello\n"] {
            std::fs::write(&path, text).expect("it is ours");
            let error = RunIdentity::open(&path, None).err().expect("no identity").to_string();
            assert!(error.contains("identity"), "{text}: {error}");
        }
    }
}
