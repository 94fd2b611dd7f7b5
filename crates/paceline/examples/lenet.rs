//! LeNet on MNIST, described and trained in Rust: `cargo run --release -p paceline --example lenet`.

use paceline::prelude::*;

#[expect(clippy::print_stdout, reason = "an example shows what it does")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let network = NetworkConfig::image(28, 28, 1)
        .seed(123)
        .weight_init(WeightInit::Xavier)
        .updater(Updater::nesterovs(0.03, 0.9))
        .layer(Conv2d::new(20, [5, 5]))
        .layer(Subsampling::max([2, 2]).stride([2, 2]))
        .layer(Conv2d::new(50, [5, 5]))
        .layer(Subsampling::max([2, 2]).stride([2, 2]))
        .layer(Dense::new(500).activation(Activation::Relu))
        .layer(Output::new(10, Loss::CrossEntropy).activation(Activation::Softmax));

    let epochs = std::env::args().nth(1).map_or(Ok(2), |n| n.parse())?;
    let train = open("mnist:train", &OpenOptions::default())?;
    let test = open("mnist:test", &OpenOptions::default())?;
    let options = TrainOptions { batch: 128, epochs, ..TrainOptions::default() };
    let trainer = Trainer::new(Network::new(network)?, train, options)?.test(test)?;
    let outcome = trainer.run(&mut |event| {
        if let Event::Evaluation { epoch, scores } = event {
            println!("epoch {epoch}: accuracy {:.4}", scores.accuracy().unwrap_or_default());
        }
    })?;
    outcome.model.save("lenet.safetensors".as_ref())?;
    println!("{}", outcome.scores.expect("there is test data"));
    Ok(())
}
