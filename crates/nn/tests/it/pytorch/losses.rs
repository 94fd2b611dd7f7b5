//! Every loss, with example weights and, where there is one, together with the activation that it is merged with.

use paceline_nn::Loss;

use super::case::agree_with_pytorch;

/// What PyTorch does not have.
const OURS_ALONE: [Loss; 4] = [Loss::Mape, Loss::Msle, Loss::Wasserstein, Loss::MultiLabel];

#[test]
fn losses_agree_with_pytorch() {
    let networks = agree_with_pytorch("losses.json");
    let has_mixture = networks.iter().any(|network| *network.loss() == Loss::MixtureDensity { gaussians: 3 });
    assert!(has_mixture, "a mixture is compared with PyTorch's");
    for loss in Loss::ALL {
        let compared = networks.iter().any(|network| *network.loss() == loss);
        assert_ne!(compared, OURS_ALONE.contains(&loss), "{loss:?} is compared with PyTorch's if it has one");
    }
}
