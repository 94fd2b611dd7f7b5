//! `evaluate` and `predict` on many machines: one process leads, others help.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use paceline::data::Source;
use paceline::model::{Batch, Loss};
use paceline::train::ParallelInference;
use paceline_cluster::inference::{
    HelpEvent, HelpOptions, InferenceEvent, LeadInference, help_inference, lead_inference,
};

use super::master::{is_loopback, read_token};
use super::open_options;
use super::worker::target;
use crate::arguments::{Cache, Helping, Workers};
use crate::failure::{DONE, Exit, Misuse};

/// How long a helper looks for somebody to help, in seconds.
const PATIENCE: u64 = 60;

/// Refuses what only a helper can be told.
pub(super) fn expect_no_helper(helping: &Helping) -> Result<()> {
    let given = [("--data-root", helping.data_root.is_some()), ("--patience", helping.patience.is_some())];
    match given.iter().find(|(_, is_given)| *is_given) {
        Some((option, _)) => {
            bail!(Misuse(format!("`{option}` is for a process that helps another: expected `--join`")))
        }
        None => Ok(()),
    }
}

/// Helps whoever leads.
pub(super) fn help(join: &str, helping: &Helping, workers: &Workers, cache: &Cache) -> Result<Exit> {
    let patience = helping.patience.unwrap_or(PATIENCE);
    let mut open = open_options(cache, false);
    open.root.clone_from(&helping.data_root);
    let options = HelpOptions {
        target: target(join)?,
        token: helping.token_file.as_deref().map(read_token).transpose()?,
        workers: workers.workers.map(|workers| workers as usize),
        open,
        patience: Duration::from_secs(patience),
    };
    let computed = help_inference(&options, &mut |event| match event {
        HelpEvent::Joined { address, data, examples } => {
            emit!("helping {address} with `{data}`, {examples} examples");
        }
        HelpEvent::Waiting { address, reason } => {
            emit!("waiting for up to {} s for a process to help at {address}: {reason}", patience);
        }
    })?;
    emit!("finished: {computed} examples were computed here");
    Ok(DONE)
}

/// A pass that others may help with.
pub(super) struct Led<'a> {
    pub listen: &'a str,
    pub helping: &'a Helping,
    /// Which command they help with.
    pub command: &'static str,
    /// The model file.
    pub model: Vec<u8>,
    pub data: &'a str,
    pub source: Arc<dyn Source>,
    pub batch: usize,
    pub judged: bool,
}

/// Runs the model over the data with whoever helps; batches come in order, without their features.
pub(super) fn lead(
    led: Led<'_>,
    inference: &ParallelInference,
    each: impl FnMut(&Batch, &[f32], Loss) -> Result<()>,
) -> Result<()> {
    let Led { listen, helping, command, model, data, source, batch, judged } = led;
    let options = LeadInference {
        listen: listen.to_owned(),
        advertise: helping.advertise.clone(),
        tls: !is_loopback(listen)?,
        token: helping.token_file.as_deref().map(read_token).transpose()?,
        model,
        data: data.to_owned(),
        source,
        batch,
        judged,
    };
    lead_inference(options, inference, &mut |event| tell(event, command, helping), each)
}

fn tell(event: &InferenceEvent, command: &str, helping: &Helping) {
    match event {
        InferenceEvent::Listening { address, join } => {
            let token = helping.token_file.as_ref().map(|file| format!(" --token-file {}", file.display()));
            let join = match join {
                Some(join) => format!("'{join}'"),
                None => format!("{address}{}", token.unwrap_or_default()),
            };
            emit!("listening on {address}; another machine helps with: paceline {command} --join {join}");
        }
        InferenceEvent::Refused { helper, reason } => emit!("{helper} cannot help: {reason}"),
        InferenceEvent::Joined { helper, helpers } => emit!("{helper} helps; {helpers} do"),
        // The answer is soon there, or tells itself.
        InferenceEvent::Progress { .. } => {}
        InferenceEvent::Lost { helper, reason, parts_again } => {
            emit!("{helper} does not help any more: {reason}; {parts_again} parts are done by others");
        }
        InferenceEvent::Helped { helper, examples } => emit!("{helper} has computed {examples} examples"),
    }
}
