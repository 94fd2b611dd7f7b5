//! A job whose layers are pretrained: each phase is a run of its own at the same place, so that nothing passes from one to the next but
//! the model. A master that comes later finds in the record which phase it is.

use std::path::Path;

use paceline_nn::ModelFile;
use paceline_train::{Event, Job, Stop, Take, phase_folder};

use super::disk::MODEL;
use super::{LeadOptions, Outcome, ToLead, beginning_with, run_phase};
use crate::ClusterError;
use crate::wire::JobText;

/// Leads all phases, one after the other. Those that have ended before are passed over.
pub(super) fn run_all(
    text: &JobText,
    phases: &[Job],
    options: &LeadOptions,
    stop: &Stop,
    tell: &mut dyn FnMut(&Event),
) -> Result<Outcome, ClusterError> {
    let of = phases.len();
    let mut place = Place { listen: options.listen.clone(), status: options.status.clone() };
    let mut before: Option<ModelFile> = None;
    for (at, job) in phases.iter().enumerate() {
        let (number, layer) = (at + 1, job.phase.as_ref().and_then(|phase| phase.layer.clone()));
        let is_last = number == of;
        let folder = if is_last { options.output.clone() } else { phase_folder(&options.output, number) };
        let mut trainer = job.cluster_trainer(Some(folder.clone()), &options.open)?;
        match (&before, &options.begin_with) {
            (Some(before), _) => trainer = beginning_with(trainer, before, Take::Learned)?,
            (None, Some((model, take))) => trainer = beginning_with(trainer, model, *take)?,
            (None, None) => {}
        }
        let leading = ToLead {
            options,
            listen: place.listen.clone(),
            status: place.status.clone(),
            folder: folder.clone(),
            trainer,
            restarts: options.restarts && number == 1,
            goes_on: !is_last,
        };
        // A master judges nothing while a layer is pretrained: what it heard of the last epoch stands for it.
        let mut told_loss = f64::NAN;
        let outcome = run_phase(text.clone().of_phase(number), leading, stop, &mut |event| match event {
            Event::Listening { address, status, .. } => {
                tell(event);
                place.stay_at(address, status.as_deref(), options);
                tell(&Event::Phase { phase: number, of, layer: layer.clone() });
            }
            Event::Epoch { loss, .. } => {
                told_loss = *loss;
                tell(event);
            }
            Event::Finished { examples, seconds, model, .. } if !is_last => tell(&Event::PhaseEnded {
                phase: number,
                of,
                layer: layer.clone(),
                examples: *examples,
                score: told_loss,
                seconds: *seconds,
                model: model.clone(),
            }),
            Event::AlreadyEnded { .. } if !is_last => {}
            event => tell(event),
        })?;
        if outcome.stopped || is_last {
            return Ok(outcome);
        }
        before = Some(load(&folder)?);
    }
    unreachable!("the last phase of a job returns")
}

fn load(folder: &Path) -> Result<ModelFile, ClusterError> {
    Ok(ModelFile::load(&folder.join(MODEL))?)
}

/// Where workers and those who watch find all phases.
struct Place {
    listen: String,
    status: Option<String>,
}

impl Place {
    /// Later phases are where the first one was: a port that was left to chance is kept.
    fn stay_at(&mut self, address: &str, status: Option<&str>, options: &LeadOptions) {
        if options.advertise.is_none() {
            self.listen = with_port_of(&self.listen, address);
        }
        if let (Some(own), Some(told)) = (&mut self.status, status) {
            *own = with_port_of(own, told);
        }
    }
}

/// The host of one address with the port of another.
fn with_port_of(own: &str, other: &str) -> String {
    match (own.rsplit_once(':'), other.rsplit_once(':')) {
        (Some((host, _)), Some((_, port))) => format!("{host}:{port}"),
        _ => own.to_owned(),
    }
}
