//! What each layer reads, and an order in which it is there when it does.

use crate::Error;
use crate::config::{LayerConfig, NetworkConfig, nearest};

/// Where a layer's operand comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Input(usize),
    Layer(usize),
}

/// The layers in an order in which each comes after all that it reads.
pub(super) fn wire(config: &NetworkConfig) -> Result<Vec<(usize, Vec<Origin>)>, Error> {
    let wiring = Wiring { config, names: names(config)? };
    let reads: Vec<Vec<Origin>> =
        (0..config.layers.len()).map(|index| wiring.reads(index)).collect::<Result<_, _>>()?;
    let order = wiring.order(&reads)?;
    wiring.nothing_is_left_over(&reads)?;
    Ok(order.into_iter().map(|index| (index, reads[index].clone())).collect())
}

/// What a layer is called: its own name, or its index.
pub(super) fn name_of(config: &NetworkConfig, index: usize) -> String {
    config.layers[index].settings().name.clone().unwrap_or_else(|| index.to_string())
}

fn names(config: &NetworkConfig) -> Result<Vec<(String, Origin)>, Error> {
    let inputs = config.inputs.iter().enumerate().map(|(at, input)| (input.name.clone(), Origin::Input(at)));
    let mut names: Vec<(String, Origin)> = inputs.collect();
    if let Some((twice, _)) =
        names.iter().enumerate().find_map(|(at, name)| names[..at].iter().find(|before| before.0 == name.0).cloned())
    {
        return Err(Error::Config { path: "inputs".into(), message: format!("the name `{twice}` is there twice") });
    }
    for (index, layer) in config.layers.iter().enumerate() {
        let name = name_of(config, index);
        if let Some((_, other)) = names.iter().find(|(other, _)| *other == name) {
            let other = if matches!(other, Origin::Input(_)) { "an input" } else { "another layer" };
            return Err(wrong(index, layer, format!("the name `{name}` is taken by {other}")));
        }
        names.push((name, Origin::Layer(index)));
    }
    Ok(names)
}

fn wrong(index: usize, layer: &LayerConfig, message: String) -> Error {
    Error::Layer { index, kind: layer.kind().into(), message }
}

struct Wiring<'a> {
    config: &'a NetworkConfig,
    names: Vec<(String, Origin)>,
}

impl Wiring<'_> {
    fn wrong(&self, index: usize, message: String) -> Error {
        wrong(index, &self.config.layers[index], message)
    }

    /// What a layer reads: what it says, or what lies before it.
    fn reads(&self, index: usize) -> Result<Vec<Origin>, Error> {
        let layers = &self.config.layers;
        let Some(after) = &layers[index].settings().after else {
            return match index.checked_sub(1) {
                Some(before) if layers[before].is_end() => Err(self.wrong(
                    index,
                    format!(
                        "nothing can follow the loss of layer {before}; say with `after` which layers or inputs it follows"
                    ),
                )),
                Some(before) => Ok(vec![Origin::Layer(before)]),
                None if self.config.inputs.len() == 1 => Ok(vec![Origin::Input(0)]),
                None => Err(self.wrong(index, format!("say with `after` which of the inputs it follows: {}", self.inputs()))),
            };
        };
        if after.is_empty() {
            return Err(self.wrong(index, "`after` must name at least one layer or input".into()));
        }
        after.iter().map(|name| self.find(index, name)).collect()
    }

    fn inputs(&self) -> String {
        let names: Vec<String> = self.config.inputs.iter().map(|input| format!("`{}`", input.name)).collect();
        names.join(", ")
    }

    fn find(&self, index: usize, name: &str) -> Result<Origin, Error> {
        let found = self.names.iter().find(|(known, _)| known == name).map(|(_, origin)| *origin);
        match found {
            Some(Origin::Layer(before)) if self.config.layers[before].is_end() => {
                Err(self.wrong(index, format!("`after = \"{name}\"`: nothing can follow the loss of layer {before}")))
            }
            Some(origin) => Ok(origin),
            None => {
                let hint = match nearest(name, self.names.iter().map(|(name, _)| name.as_str())) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => "layers without a name are known by their index, from 0".into(),
                };
                Err(self.wrong(index, format!("`after`: there is no layer or input `{name}`; {hint}")))
            }
        }
    }

    /// Whatever goes in must come out somewhere.
    fn nothing_is_left_over(&self, reads: &[Vec<Origin>]) -> Result<(), Error> {
        let is_read = |origin: Origin| reads.iter().flatten().any(|read| *read == origin);
        for (index, layer) in self.config.layers.iter().enumerate() {
            let may_be_the_end = index + 1 == reads.len() && !self.config.layers.iter().any(LayerConfig::is_end);
            if !layer.is_end() && !is_read(Origin::Layer(index)) && !may_be_the_end {
                let name = name_of(self.config, index);
                let message =
                    format!("nothing comes `after` it: name `{name}` in a layer that reads it, or leave it out");
                return Err(self.wrong(index, message));
            }
        }
        for (at, input) in self.config.inputs.iter().enumerate() {
            if !is_read(Origin::Input(at)) {
                let message = format!("nothing comes `after` the input `{}`", input.name);
                return Err(Error::Config { path: "inputs".into(), message });
            }
        }
        Ok(())
    }

    /// The order of the file wherever that is possible.
    fn order(&self, reads: &[Vec<Origin>]) -> Result<Vec<usize>, Error> {
        let mut order = Vec::with_capacity(reads.len());
        let mut is_there = vec![false; reads.len()];
        let is_known = |is_there: &[bool], origin: &Origin| match origin {
            Origin::Input(_) => true,
            Origin::Layer(layer) => is_there[*layer],
        };
        while order.len() < reads.len() {
            let next = (0..reads.len())
                .find(|index| !is_there[*index] && reads[*index].iter().all(|read| is_known(&is_there, read)));
            match next {
                Some(index) => {
                    is_there[index] = true;
                    order.push(index);
                }
                None => return Err(self.cycle(reads, &is_there)),
            }
        }
        Ok(order)
    }

    /// Names the layers that wait for each other.
    fn cycle(&self, reads: &[Vec<Origin>], is_there: &[bool]) -> Error {
        let waits_for = |index: usize| {
            reads[index].iter().find_map(|read| match read {
                Origin::Layer(layer) if !is_there[*layer] => Some(*layer),
                _ => None,
            })
        };
        // Whoever waits does so for somebody who waits: after as many steps as there are layers one is on the cycle.
        let mut at = is_there.iter().position(|is_there| !is_there).expect("somebody waits");
        for _ in 0..reads.len() {
            at = waits_for(at).expect("who waits waits for somebody");
        }
        let mut cycle = vec![at];
        let next = |cycle: &[usize]| cycle.last().and_then(|last| waits_for(*last)).expect("as before");
        while next(&cycle) != at {
            cycle.push(next(&cycle));
        }
        let first = cycle.iter().enumerate().min_by_key(|(_, layer)| **layer).map_or(0, |(place, _)| place);
        cycle.rotate_left(first);
        cycle.push(cycle[0]);
        let names: Vec<String> =
            cycle.iter().rev().map(|layer| format!("`{}`", name_of(self.config, *layer))).collect();
        self.wrong(cycle[0], format!("it comes after itself: {}", names.join(" → ")))
    }
}
