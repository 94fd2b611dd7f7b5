use paceline_model::{Batch, Error, Loss};

use crate::executor::{Executor, Kernels};
use crate::node::Node;
use crate::pass::{Backward, Forward, Needs};
use crate::plan::Lowering;
use crate::{Network, plain};

/// Plain loops in `f64`, nothing fused, nothing shared: what every other executor is compared with.
pub struct Reference {
    executor: Executor<PlainKernels>,
    /// The parameters, in `f64`.
    pub parameters: Vec<f64>,
    /// What is learned but not trained, in `f64`.
    pub running: Vec<f64>,
    /// The last gradient.
    pub gradient: Vec<f64>,
}

struct PlainKernels;

impl Kernels for PlainKernels {
    type R = f64;
    const LOWERING: Lowering = Lowering { fused: false, shared_memory: false };

    fn needs(&mut self, node: &Node, examples: usize) -> Needs {
        plain::needs(node, examples)
    }

    fn forward(&mut self, node: &Node, pass: &mut Forward<'_, f64>) {
        plain::forward(node, pass);
    }

    fn backward(&mut self, node: &Node, pass: &mut Backward<'_, f64>) {
        plain::backward(node, pass);
    }
}

impl Reference {
    /// A reference that starts as the network's own seed says.
    pub fn new(network: Network) -> Self {
        let state = network.initial_state();
        let wide = |values: &[f32]| values.iter().map(|v| f64::from(*v)).collect::<Vec<_>>();
        let (parameters, running) = (wide(&state.parameters), wide(&state.running));
        let mut executor = Executor::new(network, PlainKernels);
        executor.poison();
        Self { executor, gradient: vec![0.0; parameters.len()], parameters, running }
    }

    /// The summed loss; its gradient is left in `gradient`.
    pub fn gradient(&mut self, batch: &Batch) -> Result<Loss, Error> {
        self.executor.gradient(batch, &self.parameters, &mut self.running, &mut self.gradient)
    }

    /// The outputs, and the loss if the batch has targets.
    pub fn predict(&mut self, batch: &Batch) -> Result<(Vec<f64>, Option<Loss>), Error> {
        let (outputs, loss) = self.executor.predict(batch, &self.parameters, &self.running)?;
        Ok((outputs.to_vec(), loss))
    }
}
