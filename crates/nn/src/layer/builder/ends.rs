//! Where a network ends, and what is judged there.

use super::Builder;
use crate::config::{NetworkConfig, nearest};
use crate::graph::{Force, ForceKind, Head, ValueId};
use crate::{Error, GradientNormalisation, Loss, Network, Registry, Shape};

/// Why a loss cannot judge outputs of a shape.
fn misfit_of(loss: &Loss, shape: Shape) -> String {
    match loss {
        Loss::MixtureDensity { gaussians: 0 } => "`gaussians` must be at least 1".into(),
        Loss::MixtureDensity { gaussians } => format!(
            "`mixture_density` of {gaussians} distributions judges {gaussians} · (2 + targets) outputs: for each distribution a share, a \
             deviation, and as many means as there are targets; found {shape}"
        ),
        _ => format!("its loss cannot judge {shape}"),
    }
}

impl Builder<'_> {
    pub(in crate::layer) fn finish(mut self, config: NetworkConfig) -> Result<Network, Error> {
        let mut names: Vec<&str> = self.parameters.iter().map(|(p, _)| p.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(self.wrong(format!("the parameter `{}` is asked for twice", twice[0])));
        }
        self.graph.prune();
        if self.graph.heads.is_empty() {
            return Err(Error::Incomplete("an `output` or `loss` layer at its end"));
        }
        if self.graph.heads.len() > 1 && self.graph.forces.iter().any(|f| matches!(f.kind, ForceKind::OfClass { .. })) {
            return Err(self.wrong("`centre_loss` is for networks with one end".into()));
        }
        let is_reconstruction = |head: &Head| head.against.is_some();
        if self.graph.heads.iter().any(is_reconstruction) && !self.graph.heads.iter().all(is_reconstruction) {
            return Err(self.wrong("a network that ends with a `reconstruction` has no ends that need targets".into()));
        }
        self.graph.heads.sort_by_key(|head| head.layer);
        let layers = self.built.into_iter().flatten().map(|(info, _)| info).collect();
        let network = Network::from_parts(config, layers, self.parameters, self.running, self.graph);
        if network.config().optimiser.searches() {
            if network.graph.forces.iter().any(|force| matches!(force.kind, ForceKind::Energy { .. })) {
                return Err(Error::not_for_searches("contrastive divergence of an `rbm`"));
            }
            if network.graph.forces.iter().any(|force| matches!(force.kind, ForceKind::OfClass { .. })) {
                return Err(Error::not_for_searches("centre_loss"));
            }
            for segment in network.segments().segments() {
                let GradientNormalisation::None = segment.normalisation else {
                    return Err(Error::not_for_searches("gradient_normalisation"));
                };
                let set = [
                    ("l1", segment.l1 != 0.0),
                    ("weight_decay", segment.weight_decay != 0.0),
                    ("constraints", !segment.constraints.is_empty()),
                    ("weight_noise", segment.noise.is_some()),
                ];
                if let Some((name, _)) = set.into_iter().find(|(_, is_set)| *is_set) {
                    return Err(Error::not_for_searches(name));
                }
            }
        }
        // Asked for and given back: better a sentence now than an abort later.
        let (parameters, buffers) = (network.parameter_count(), 2 + network.slots());
        let numbers = parameters.saturating_mul(buffers);
        if Vec::<f32>::new().try_reserve_exact(numbers).is_err() {
            return Err(Error::TooLarge { parameters, bytes: numbers.saturating_mul(4) });
        }
        Ok(network)
    }

    /// Gives a value another slope besides those of the losses.
    pub(in crate::layer) fn force(&mut self, value: ValueId, kind: ForceKind) {
        self.graph.forces.push(Force { value, kind });
    }

    /// Ends the network with a loss; one that is pretrained ends elsewhere. `smoothing` is the share of a target that is spread over all
    /// classes while something is learned.
    pub(in crate::layer) fn end_with(
        &mut self,
        loss: &Loss,
        weight: f32,
        smoothing: f32,
        registry: &Registry,
    ) -> Result<(), Error> {
        if !(0.0..1.0).contains(&smoothing) {
            return Err(self.wrong(format!("`label_smoothing` must be 0 or more and less than 1, found {smoothing}")));
        }
        if smoothing > 0.0 && !matches!(loss, Loss::CrossEntropy | Loss::SparseCrossEntropy | Loss::BinaryCrossEntropy)
        {
            let message = "`label_smoothing` is for `cross_entropy` and `binary_cross_entropy`: other losses do not compare shares";
            return Err(self.wrong(message.into()));
        }
        let head = Head { smoothing, ..self.head(loss, weight, None, registry)? };
        if self.config.pretrains.is_none() {
            self.graph.heads.push(head);
        }
        Ok(())
    }

    /// Compares what the next operation would read with a value.
    pub(in crate::layer) fn judge_against(
        &mut self,
        value: ValueId,
        loss: &Loss,
        weight: f32,
        registry: &Registry,
    ) -> Result<(), Error> {
        let head = self.head(loss, weight, Some(value), registry)?;
        if self.config.pretrains.is_none() || self.is_pretrained() {
            self.graph.heads.push(head);
        }
        Ok(())
    }

    fn head(&self, loss: &Loss, weight: f32, against: Option<ValueId>, registry: &Registry) -> Result<Head, Error> {
        if !(weight > 0.0 && weight.is_finite()) {
            return Err(self.wrong(format!("`loss_weight` must be above 0, found {weight}")));
        }
        let mut loss = loss.clone();
        if let Loss::Custom(named) = &mut loss
            && named.found.is_none()
        {
            named.found = registry.find_loss(&named.name);
            if named.found.is_none() {
                return Err(self.unregistered("loss", &named.name, registry.loss_names()));
            }
        }
        if self.copies() > 1 {
            return Err(self.wrong("its input is stacked: `unstack` it before the loss".into()));
        }
        let (shape, mask) = (self.shape, self.mask().filter(|_| against.is_none()));
        if loss.targets(shape).is_none_or(|targets| against.is_some() && targets != shape.len()) {
            let message = match against {
                Some(_) => "its loss cannot hold numbers against numbers".into(),
                None => misfit_of(&loss, shape),
            };
            return Err(self.wrong(message));
        }
        Ok(Head { layer: self.index, value: self.value, loss, weight, smoothing: 0.0, against, mask })
    }

    pub(in crate::layer) fn unregistered<'n>(
        &self,
        what: &str,
        name: &str,
        known: impl Iterator<Item = &'n str>,
    ) -> Error {
        let hint = nearest(name, known).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
        self.wrong(format!("no {what} `{name}` was registered{hint}"))
    }
}
