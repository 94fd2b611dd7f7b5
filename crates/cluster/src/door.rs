//! How a stranger comes in: both sides prove that they know the token, whoever lets in first.

use std::collections::BTreeMap;

use crate::transport::LinkId;
use crate::trust::{Role, TOKENS, Talk, Token};
use crate::wire::Word;

/// Strangers that have to prove that they know the token.
#[derive(Default)]
pub(crate) struct Door {
    challenged: BTreeMap<LinkId, Challenged>,
}

/// One who wants to come in.
struct Challenged {
    /// What it has made up.
    of_worker: String,
    /// What this side has.
    of_master: String,
    /// What its machine is called.
    machine: String,
}

impl Door {
    /// A stranger has said hello: what is said to it.
    pub(crate) fn challenge(
        &mut self,
        link: LinkId,
        token: &Token,
        (of_worker, machine): (String, String),
        of_master: String,
        binding: &[u8],
    ) -> Word {
        let proof = token.prove(Role::Master, &Talk { of_worker: &of_worker, of_master: &of_master, binding });
        let nonce = of_master.clone();
        self.challenged.insert(link, Challenged { of_worker, of_master, machine });
        Word::Challenge { nonce, proof }
    }

    /// A stranger has answered: what its machine is called, if it may come in.
    pub(crate) fn lets_in(&mut self, link: LinkId, token: &Token, proof: &str, binding: &[u8]) -> Option<String> {
        let Challenged { of_worker, of_master, machine } = self.challenged.remove(&link)?;
        let talk = Talk { of_worker: &of_worker, of_master: &of_master, binding };
        token.is_proved(Role::Worker, &talk, proof).then_some(machine)
    }

    /// A stranger has gone.
    pub(crate) fn forget(&mut self, link: LinkId) {
        self.challenged.remove(&link);
    }
}

/// What a stranger answers to a challenge, and whether the other side has proved that it knows the token.
///
/// # Errors
///
/// If the other side has another token than this one.
pub(crate) fn answer(
    token: Option<&Token>,
    own: &str,
    nonce: &str,
    proof: &str,
    binding: &[u8],
) -> Result<(Word, bool), String> {
    let talk = Talk { of_worker: own, of_master: nonce, binding };
    match token {
        None => Ok((Word::Prove { proof: String::new() }, false)),
        Some(token) if token.is_proved(Role::Master, &talk, proof) => {
            Ok((Word::Prove { proof: token.prove(Role::Worker, &talk) }, true))
        }
        Some(_) => Err(format!("its token is another one; {TOKENS}")),
    }
}
