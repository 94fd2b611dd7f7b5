use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use paceline_model::{Batch, Loss};
use paceline_nn::Engine;

use super::InferenceError;
use super::intake::{Intake, Request};
use super::served::Served;
use super::slot::{Slot, Told};
use super::statistics::Counters;
use crate::Normalisers;
use crate::normalisers::predict;
use crate::team::panic_message;

/// One engine: a model with memory of its own for activations. Parameters are shared with all others.
pub(super) struct Replica {
    index: usize,
    counters: Arc<Counters>,
    /// For the version that ran last.
    engine: Option<(u64, Engine)>,
    /// Where requests are joined, and what came out for them.
    joined: Batch,
    outputs: Vec<f32>,
}

impl Replica {
    pub(super) fn new(index: usize, counters: Arc<Counters>) -> Self {
        Self { index, counters, engine: None, joined: Batch::empty(), outputs: Vec::new() }
    }

    /// Answers requests until there will be no more.
    pub(super) fn work(mut self, intake: &Intake) {
        let mut pass = Vec::new();
        loop {
            intake.collect(&mut pass);
            match &pass[..] {
                [] => return,
                [only] => self.answer(&only.slot),
                several => self.answer_together(several),
            }
        }
    }

    /// Answers one request by itself.
    pub(super) fn answer(&mut self, slot: &Slot) {
        let mut job = slot.lock();
        let job = &mut *job;
        let model = job.model.take().expect("a request has its model until it is answered");
        let end = self.pass(&model, &mut job.batch, &mut job.outputs);
        self.counters.answered(end.is_err());
        slot.finish(job, end.map(|loss| Told { version: model.version, loss }));
    }

    /// Answers several requests for one version in one pass.
    fn answer_together(&mut self, requests: &[Request]) {
        let mut joined = std::mem::replace(&mut self.joined, Batch::empty());
        let mut outputs = std::mem::take(&mut self.outputs);
        joined.indices.clear();
        joined.features.clear();
        let mut model = None;
        for request in requests {
            let job = request.slot.lock();
            joined.indices.extend_from_slice(&job.batch.indices);
            joined.features.extend_from_slice(&job.batch.features);
            joined.width = job.batch.width;
            model = model.or_else(|| job.model.clone());
        }
        let model = model.expect("a request has its model until it is answered");
        if self.pass(&model, &mut joined, &mut outputs).is_ok() {
            let mut rest = &outputs[..];
            for Request { slot, examples, .. } in requests {
                let (own, others) = rest.split_at(examples * model.outputs());
                rest = others;
                let mut job = slot.lock();
                job.outputs.clear();
                job.outputs.extend_from_slice(own);
                self.counters.answered(false);
                slot.finish(&mut job, Ok(Told { version: model.version, loss: None }));
            }
        } else {
            // One request may be what the others fell with: by themselves, only that one fails.
            requests.iter().for_each(|request| self.answer(&request.slot));
        }
        (self.joined, self.outputs) = (joined, outputs);
    }

    /// Normalises the features of a batch in place and runs the model on it. A panic is an error, and costs the engine that it left.
    fn pass(
        &mut self,
        model: &Served,
        batch: &mut Batch,
        outputs: &mut Vec<f32>,
    ) -> Result<Option<Loss>, InferenceError> {
        self.counters.passed(batch.examples());
        let kept = self.engine.take().filter(|(version, _)| *version == model.version);
        let run = AssertUnwindSafe(|| {
            let (_, mut engine) = kept.unwrap_or_else(|| (model.version, Engine::new(model.network.clone())));
            let Normalisers { features, targets } = &model.normalisers;
            if let Some(normaliser) = features {
                let fits = "the normaliser was checked against the network when the model was taken";
                normaliser.apply(&mut batch.features, batch.width).expect(fits);
            }
            let loss = predict(&mut engine, &model.state, batch, targets.as_ref(), outputs)?;
            Ok((engine, loss))
        });
        match catch_unwind(run) {
            Ok(Ok((engine, loss))) => {
                self.engine = Some((model.version, engine));
                Ok(loss)
            }
            Ok(Err(error)) => Err(InferenceError::Model(error)),
            Err(panic) => Err(InferenceError::Panicked { worker: self.index, message: panic_message(&*panic) }),
        }
    }
}
