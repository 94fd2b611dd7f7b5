//! Text from a model of characters: it is given some, and then what it has told itself.

use paceline_data::Schema;
use paceline_nn::Stepwise;
use paceline_nn::random::Counted;

use crate::{Error, SavedModel};

/// How text is drawn.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateOptions {
    /// What it begins with; one of the characters that are known if it is empty.
    pub begin: String,
    /// Characters to add.
    pub length: usize,
    /// Below 1 what is likely becomes likelier, above 1 less so; at 0 the likeliest is taken.
    pub temperature: f64,
    /// What chance goes by.
    pub seed: u64,
}

impl Default for GenerateOptions {
    fn default() -> Self {
        Self { begin: String::new(), length: 400, temperature: 1.0, seed: 0 }
    }
}

impl SavedModel {
    /// Goes on with a text, character by character, and hands each to `each` as soon as it is there.
    pub fn generate(&self, options: &GenerateOptions, mut each: impl FnMut(char)) -> Result<(), Error> {
        let wrong = |setting, message| Error::Unsuitable { setting, message };
        let network = &self.file.network;
        let names = self.schema.as_ref().and_then(Schema::class_names).unwrap_or_default();
        let characters: Vec<char> = names.iter().filter_map(|name| name.chars().next()).collect();
        let is_text = network.input().channels() == 1
            && network.output().steps().is_some()
            && characters.len() == names.len()
            && !characters.is_empty()
            && network.output().channels() >= characters.len();
        if !is_text {
            let message = format!(
                "needs a model that was trained on `text:` and predicts the next character; this one gives {} for {}",
                network.output(),
                network.input()
            );
            return Err(wrong("generate", message));
        }
        if !(options.temperature >= 0.0 && options.temperature.is_finite()) {
            return Err(wrong("--temperature", format!("must be 0 or more, found {}", options.temperature)));
        }
        let number = |character: char| {
            let found = characters.iter().position(|known| *known == character);
            found.ok_or_else(|| wrong("--text", format!("has {character:?}, which the training text lacks")))
        };
        let stream = Counted::new(options.seed, u64::MAX, 0, 0);
        let mut given: Vec<usize> = options.begin.chars().map(number).collect::<Result<_, _>>()?;
        if given.is_empty() {
            given.push(stream.bits(u32::MAX) as usize % characters.len());
        }
        let mut stepwise = Stepwise::new(network, &self.file.state).map_err(Error::Network)?;
        let mut outputs = Vec::new();
        for number in &given {
            stepwise.step(&[*number as f32], 1, &mut outputs)?;
        }
        for at in 0..options.length {
            let next = draw(&outputs[..characters.len()], options.temperature, f64::from(stream.uniform(at as u32)));
            each(characters[next]);
            stepwise.step(&[next as f32], 1, &mut outputs)?;
        }
        Ok(())
    }
}

/// One of these chances, sharpened or flattened.
fn draw(chances: &[f32], temperature: f64, chance: f64) -> usize {
    let likeliest = (0..chances.len()).fold(0, |best, at| if chances[at] > chances[best] { at } else { best });
    if temperature == 0.0 {
        return likeliest;
    }
    let shares: Vec<f64> = chances.iter().map(|p| f64::from(*p).powf(1.0 / temperature)).collect();
    let mut left = chance * shares.iter().sum::<f64>();
    for (at, share) in shares.iter().enumerate() {
        left -= share;
        if left < 0.0 {
            return at;
        }
    }
    likeliest
}
