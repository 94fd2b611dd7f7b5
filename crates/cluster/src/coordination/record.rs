use serde::{Deserialize, Serialize};

use super::CoordinationError;

/// The most bytes that a published record may have. ZooKeeper breaks the connection somewhat above 1 MB; parameters do
/// not belong there.
pub const RECORD_LIMIT: usize = 256 * 1024;

/// The most bytes of a worker's name.
const NAME_LIMIT: usize = 200;

/// What is published of a run: small, no secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRecord {
    /// The id of the run.
    pub run: u64,
    /// The term of the master that published it.
    pub term: u64,
    /// The address of that master.
    pub address: String,
    /// The fingerprint of that master's key.
    #[serde(default)]
    pub key: Option<String>,
    /// The job as TOML text; may be empty.
    #[serde(default)]
    pub job: String,
    /// Where the last checkpoint lies.
    #[serde(default)]
    pub checkpoint: Option<String>,
    /// How far the run is.
    #[serde(default)]
    pub stage: RunStage,
}

/// How far a run is: it only ever goes on from one to the next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStage {
    /// It trains.
    #[default]
    Running,
    /// The checkpoint is the last; the model is still to be judged and written.
    Trained,
    /// The model is written. Nothing is left to do.
    Ended {
        /// Where it lies.
        model: String,
        /// What its bytes come to.
        digest: String,
    },
}

impl RunRecord {
    /// The record as it is published; fails if it is too large.
    pub(super) fn encode(&self) -> Result<Vec<u8>, CoordinationError> {
        let text = serde_json::to_vec_pretty(self).expect("a record has no map with odd keys");
        if text.len() > RECORD_LIMIT {
            return Err(CoordinationError::RecordTooLarge { found: text.len(), limit: RECORD_LIMIT });
        }
        Ok(text)
    }

    /// What was published, or why it is none.
    pub(super) fn decode(text: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(text).map_err(|error| error.to_string())
    }
}

/// Fails for a name that cannot be that of a file or a node.
pub(super) fn check_name(name: &str) -> Result<(), CoordinationError> {
    let bad = |expected| Err(CoordinationError::BadName { name: name.to_owned(), expected });
    if name.is_empty() || name.len() > NAME_LIMIT {
        return bad("1 to 200 bytes");
    }
    if name
        .chars()
        .any(|letter| matches!(letter, '/' | '~') || !(letter.is_ascii_graphic() || letter.is_alphanumeric()))
    {
        return bad("letters, digits and signs other than `/` and `~`, without spaces");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_text() {
        let record = RunRecord {
            run: u64::MAX,
            term: 3,
            address: "[::1]:9".into(),
            key: Some("ab".into()),
            job: "[data]\ntrain = \"é\"\n".into(),
            checkpoint: Some("runs/a".into()),
            stage: RunStage::Ended { model: "runs/m".into(), digest: "cd".into() },
        };
        assert_eq!(RunRecord::decode(&record.encode().expect("small")).as_ref(), Ok(&record));
    }

    #[test]
    fn a_record_of_a_later_version_with_more_in_it_is_read() {
        let text = br#"{"run":1,"term":2,"address":"a:1","colour":"red"}"#;
        let expected = RunRecord { run: 1, term: 2, address: "a:1".into(), ..RunRecord::default() };
        assert_eq!(RunRecord::decode(text), Ok(expected));
    }

    #[test]
    fn a_large_record_is_refused_with_both_sizes() {
        let record = RunRecord { job: "x".repeat(RECORD_LIMIT), ..RunRecord::default() };
        let error = record.encode().expect_err("too large").to_string();
        assert!(error.contains("262144"), "{error}");
    }

    #[test]
    fn names_that_are_no_file_names_are_refused() {
        for name in ["", "a/b", "a~b", "a b", "a\n", &"x".repeat(201)] {
            assert!(check_name(name).is_err(), "`{name}`");
        }
        for name in ["a", "node-7.example:9,2", "Zürich"] {
            assert!(check_name(name).is_ok(), "`{name}`");
        }
    }
}
