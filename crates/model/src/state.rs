use crate::Flat;

/// Everything a replica is: flat buffers of one layout.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct State {
    /// What is trained.
    pub parameters: Flat,
    /// The sum of the examples' gradients; after the updater has run, the update.
    pub gradient: Flat,
    /// What the updater remembers between steps (momentum, squared gradients), one buffer each.
    pub slots: Vec<Flat>,
    /// What is learned but not trained, such as batch-norm statistics.
    pub running: Flat,
}
