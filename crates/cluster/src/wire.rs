//! What travels in a frame: a word, and numbers beside it.
//!
//! ```text
//! body of a frame
//! +----------+----------------------+---------------------------+
//! | u32 LE   | that many bytes      | the rest                  |
//! | n        | the word, as JSON    | numbers, or nothing       |
//! +----------+----------------------+---------------------------+
//! numbers of a part of a contribution or a sum:   see `worker/chunks.rs`
//! numbers of a result:                           f64 LE weight, then f32 LE values
//! numbers of a state, or of running statistics:   f32 LE values
//! numbers of an update:                          a message of `paceline-exchange`
//! ```

use paceline_exchange::rounds::message::{ToMaster, ToMember, ToPeer};
use paceline_exchange::rounds::{Incarnation, MemberOptions, Round, Schedule, Term, ViewNumber};
use paceline_exchange::sharing::Have;
use paceline_exchange::{Bulk, Frame};
use paceline_train::{Spent, Traffic};
use serde::{Deserialize, Serialize};

use crate::Whereabouts;
use crate::inference::Helping;

/// The version of what master and workers say to each other: major and minor. A newer minor number understands an older one.
pub const PROTOCOL: Version = Version { major: 1, minor: 0 };

/// A version of something that others read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    /// Another one is something else.
    pub major: u16,
    /// Counts additions.
    pub minor: u16,
}

impl Version {
    /// Whether what was written as another version can be read as this one.
    pub fn reads(self, written: Self) -> bool {
        written.major == self.major && written.minor <= self.minor
    }

    /// Why one who speaks another version is refused, and what to do about it.
    pub(crate) fn refusal(self, version: Self, program: &str) -> Option<String> {
        let own = env!("CARGO_PKG_VERSION");
        (!self.reads(version)).then(|| {
            format!(
                "it speaks version {version} of the protocol (paceline {program}) and the master {self} (paceline {own}), which \
                 understands the same major number and no newer minor one: install the same on both"
            )
        })
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The kind of all frames that carry words.
const KIND: u16 = 1;

/// Says in the settings of a job which phase of it is meant.
const PHASE: &str = "pretrain.phase=";

/// The job as the master read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobText {
    /// Its name.
    pub name: String,
    /// The content of the file.
    pub text: String,
    /// Whether that is JSON and not TOML.
    pub is_json: bool,
    /// Settings that are laid over it.
    pub settings: Vec<String>,
}

impl JobText {
    /// As it is published.
    pub fn published(&self) -> String {
        serde_json::to_string(self).expect("words can be written")
    }

    /// The same job, of which only this phase is meant.
    #[must_use]
    pub fn of_phase(mut self, number: usize) -> Self {
        self.settings.push(format!("{PHASE}{number}"));
        self
    }

    /// The phase that is meant; 0 if the job has only one.
    pub fn phase(&self) -> usize {
        let told = self.settings.iter().rev().find_map(|setting| setting.strip_prefix(PHASE));
        told.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// The phase of a job that was published.
    pub fn published_phase(published: &str) -> usize {
        serde_json::from_str::<JobText>(published).map_or(0, |job| job.phase())
    }

    /// The settings that hold for all phases.
    fn lasting_settings(&self) -> Vec<&String> {
        self.settings.iter().filter(|setting| !setting.starts_with(PHASE)).collect()
    }

    /// What differs from a job that was published, if anything but the phase does.
    pub fn differs(&self, published: &str) -> Option<String> {
        let Ok(other) = serde_json::from_str::<JobText>(published) else {
            return Some("its job cannot be read".into());
        };
        if self.lasting_settings() != other.lasting_settings() {
            let of = |settings: &[String]| match settings {
                [] => "none".to_owned(),
                some => some.join(" "),
            };
            return Some(format!("its settings are {}, those given are {}", of(&other.settings), of(&self.settings)));
        }
        if self.text != other.text {
            let lines = self.text.lines().zip(other.text.lines()).position(|(own, other)| own != other);
            let line = lines.unwrap_or(self.text.lines().count().min(other.text.lines().count())) + 1;
            return Some(format!("its job file differs from `{}` in line {line}", self.name));
        }
        (self.name != other.name).then(|| format!("its job is called `{}`, that given `{}`", other.name, self.name))
    }
}

/// What one who joins wants to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// To train.
    #[default]
    Train,
    /// To run a trained model over data.
    Infer,
}

/// What master and workers say to each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Word {
    /// A worker wants to join.
    Hello {
        /// What it has made up, for a proof that holds only here.
        nonce: String,
        /// The run that it was a member of; 0 if it was of none.
        #[serde(default)]
        known_run: u64,
        /// The newest term that it has seen of that run.
        known_term: Term,
        /// The version of the protocol that it speaks.
        version: Version,
        /// The version of its program.
        program: String,
        /// What its machine is called; empty if it does not know.
        #[serde(default)]
        host: String,
        /// What it wants to do.
        #[serde(default)]
        purpose: Purpose,
    },
    /// It has to prove that it knows the token, as the master does with this.
    Challenge {
        /// What the master has made up.
        nonce: String,
        /// Proves that it knows the token.
        proof: String,
    },
    /// The answer to a challenge.
    Prove {
        /// Proves that the worker knows the token; empty if it has none.
        proof: String,
    },
    /// It may, as this incarnation.
    Welcome {
        /// Who it is from now on.
        incarnation: Incarnation,
        /// What is to be done.
        job: JobText,
        /// Limits and intervals.
        options: MemberOptions,
        /// Whether the mode is `shared`.
        is_shared: bool,
        /// Its certificate and key, if members speak TLS.
        identity: Option<Vec<u8>>,
    },
    /// It may not.
    Refused {
        /// Why, and what to do.
        reason: String,
    },
    /// A new certificate and key, before the last one runs out.
    Renewed {
        /// Both.
        identity: Vec<u8>,
    },
    /// Where a worker runs.
    Whereabouts(Whereabouts),
    /// Why its last incarnation was silent: it stood still for so many milliseconds.
    StoodStill(u64),
    /// To the master.
    ToMaster(ToMaster),
    /// From the master.
    ToMember(ToMember),
    /// The first word between members.
    PeerHello {
        /// Who speaks.
        from: Incarnation,
        /// To whom.
        to: Incarnation,
    },
    /// Between members; numbers beside it where there are any.
    ToPeer(ToPeer),
    /// To a member that the sender does not reach: the master carries it, with the numbers beside it.
    Relay {
        /// To whom.
        to: Incarnation,
        /// What.
        said: ToPeer,
    },
    /// From a member that does not reach the receiver.
    Relayed {
        /// From whom.
        from: Incarnation,
        /// What.
        said: ToPeer,
    },
    /// Asks the master for its checkpoint.
    WantState {
        /// The round.
        round: Round,
    },
    /// The master's checkpoint, beside it.
    State {
        /// The round.
        round: Round,
    },
    /// A member's state for a checkpoint, beside it.
    SaveState {
        /// The round.
        round: Round,
        /// What is left to do behind it.
        rest: Schedule,
    },
    /// A member's state for a checkpoint in `shared`, beside it.
    SaveShared {
        /// The view.
        view: ViewNumber,
        /// The epoch that it was asked for in.
        epoch: u64,
        /// The messages that are in it.
        vector: Vec<(Incarnation, Have)>,
        /// Examples that are in it.
        round: Round,
    },
    /// How training goes, since this was last said.
    Report {
        /// The sum of losses.
        loss: f64,
        /// The weight of the examples.
        weight: f64,
        /// Bytes that were sent to peers.
        bytes_sent: u64,
        /// In `shared`: what messages were like, and what is kept back.
        traffic: Option<Traffic>,
        /// What its time went into.
        #[serde(default)]
        spent: Option<Spent>,
    },
    /// Between one who leads a pass of a trained model and those who help.
    Helping(Helping),
    /// A loss is no number: nobody can go on from there.
    Failed {
        /// Where, and what it was.
        error: String,
    },
}

/// Why a frame is no word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A frame of another kind.
    #[error("expected a frame of kind {KIND}, found {found}")]
    OtherKind {
        /// The kind.
        found: u16,
    },
    /// The word is longer than its frame.
    #[error("expected a word within the {room} bytes of its frame, found one of {found}")]
    TooLong {
        /// Bytes there are.
        room: usize,
        /// Bytes there should be.
        found: usize,
    },
    /// The word cannot be read.
    #[error("expected a word of the protocol: {message}")]
    NoWord {
        /// What is wrong with it.
        message: String,
    },
    /// The numbers beside the word are cut short.
    #[error("expected {expected}, found {found} bytes")]
    BadNumbers {
        /// What there should be.
        expected: &'static str,
        /// Bytes there are.
        found: usize,
    },
}

impl Word {
    /// The frame that carries this word with numbers beside it.
    pub fn frame(&self, run: u64, term: Term, origin: Incarnation, sequence: u64, numbers: &Bulk) -> Frame {
        Self::framed(run, term, origin, sequence, self.body(numbers))
    }

    /// The body that carries this word with numbers beside it. Only those in memory are copied.
    pub fn body(&self, numbers: &Bulk) -> Bulk {
        let mut body = Vec::with_capacity(256 + numbers.memory().len());
        self.begin_body(&mut body);
        body.extend_from_slice(numbers.memory());
        numbers.behind(body.into())
    }

    /// The frame of a body that begins as [`Self::begin_body`] does.
    pub fn framed(run: u64, term: Term, origin: Incarnation, sequence: u64, body: Bulk) -> Frame {
        Frame { kind: KIND, run, term, origin, sequence, body }
    }

    /// Writes the word as the beginning of a body, to which numbers are added.
    pub fn begin_body(&self, body: &mut Vec<u8>) {
        let word = serde_json::to_vec(self).expect("words, numbers and lists can be written");
        body.extend((word.len() as u32).to_le_bytes());
        body.extend(word);
    }

    /// The word of a frame, and the numbers beside it.
    pub fn read(frame: &Frame) -> Result<(Word, Bulk), WireError> {
        if frame.kind != KIND {
            return Err(WireError::OtherKind { found: frame.kind });
        }
        let body = frame.body.memory();
        let Some((length, rest)) = body.split_first_chunk::<4>() else {
            return Err(WireError::TooLong { room: body.len(), found: 4 });
        };
        let length = u32::from_le_bytes(*length) as usize;
        let Some((word, numbers)) = rest.split_at_checked(length) else {
            return Err(WireError::TooLong { room: rest.len(), found: length });
        };
        let word = serde_json::from_slice(word).map_err(|error| WireError::NoWord { message: error.to_string() })?;
        Ok((word, frame.body.behind(body.slice_ref(numbers))))
    }
}

/// Values, as bytes.
pub fn write_values(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// The values of bytes.
pub fn read_values(bytes: &[u8]) -> Result<Vec<f32>, WireError> {
    match bytes.as_chunks::<4>() {
        (values, []) => Ok(values.iter().map(|four| f32::from_le_bytes(*four)).collect()),
        _ => Err(WireError::BadNumbers { expected: "whole values", found: bytes.len() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers_come_back_as_they_went() {
        let word = Word::ToPeer(ToPeer::Contribution { view: 3, round: 9 });
        let frame = word.frame(1, 2, 3, 4, &write_values(&[1.0, -3.0]).into());
        let (read, numbers) = Word::read(&frame).expect("a word");
        assert_eq!(read, word);
        assert_eq!(read_values(numbers.memory()), Ok(vec![1.0, -3.0]));
    }

    #[test]
    fn what_is_no_word_is_refused_with_what_was_expected() {
        let frame =
            |body: &[u8]| Frame { kind: KIND, run: 0, term: 0, origin: 0, sequence: 0, body: body.to_vec().into() };
        assert_eq!(Word::read(&frame(&[1, 0])), Err(WireError::TooLong { room: 2, found: 4 }));
        let found = u32::MAX as usize;
        assert_eq!(Word::read(&frame(&[255; 8])), Err(WireError::TooLong { room: 4, found }));
        let error = Word::read(&frame(b"\x03\0\0\0{}}")).expect_err("no word");
        assert!(error.to_string().contains("expected a word"), "{error}");
        assert!(matches!(Word::read(&Frame { kind: 7, ..frame(b"") }), Err(WireError::OtherKind { found: 7 })));
        assert_eq!(read_values(&[0; 10]), Err(WireError::BadNumbers { expected: "whole values", found: 10 }));
    }
}
