//! Sources in parts: some to learn from and some to be judged on, by chance, by class, or by what belongs together.

use std::collections::HashMap;
use std::sync::Arc;

use paceline_model::Targets;

use crate::shuffle::Permutation;
use crate::source::for_each_piece;
use crate::{Error, Source, Subset, TargetShape};

/// How the examples of a source fall into parts. The same seed gives the same parts; each keeps the order of the source.
pub struct Division {
    source: Arc<dyn Source>,
    seed: u64,
    by: By,
}

/// What parts are made by.
enum By {
    Chance,
    /// Every part has its share of each class.
    Class(Vec<u32>),
    /// Examples of one group stay together.
    Group(Vec<u32>),
}

impl Division {
    /// By chance alone.
    pub fn by_chance(source: Arc<dyn Source>, seed: u64) -> Self {
        Self { source, seed, by: By::Chance }
    }

    /// By chance, so that each part has its share of every class.
    pub fn by_class(source: Arc<dyn Source>, seed: u64) -> Result<Self, Error> {
        let classes = classes(&*source)?;
        Ok(Self { source, seed, by: By::Class(classes) })
    }

    /// By chance, so that examples with the same number stay together.
    ///
    /// # Panics
    ///
    /// If there is not a number for every example.
    pub fn by_group(source: Arc<dyn Source>, seed: u64, groups: Vec<u32>) -> Self {
        assert_eq!(groups.len(), source.examples(), "every example has its group");
        Self { source, seed, by: By::Group(groups) }
    }

    /// Two parts: the first holds about `fraction` of the examples, the second the rest.
    #[expect(clippy::type_complexity, reason = "two sources in a pair read better than a name for them")]
    pub fn split(&self, fraction: f64) -> Result<(Arc<dyn Source>, Arc<dyn Source>), Error> {
        if !(0.0..=1.0).contains(&fraction) {
            let expected = "between 0 and 1".to_owned();
            return Err(Error::BadSetting { setting: "fraction", expected, found: fraction.to_string() });
        }
        let all = self.source.examples() as u64;
        let wanted = |count: u64| (count as f64 * fraction).round() as u64;
        let mut first = Vec::new();
        match &self.by {
            By::Chance => first.extend(self.strata().into_iter().flatten().take(wanted(all) as usize)),
            By::Class(_) => {
                for stratum in self.strata() {
                    let wanted = wanted(stratum.len() as u64) as usize;
                    first.extend(stratum.into_iter().take(wanted));
                }
            }
            By::Group(_) => {
                // A group goes where it brings the part nearer to its size.
                for group in self.strata() {
                    let (without, with) = (first.len() as u64, (first.len() + group.len()) as u64);
                    if with.abs_diff(wanted(all)) <= without.abs_diff(wanted(all)) {
                        first.extend(group);
                    }
                }
            }
        }
        let rest = self.without(&first);
        self.parts(first, rest)
    }

    /// So many folds of about the same size: for each the training part, which is all examples without the fold, and the fold. A fold is
    /// made when it is asked for, since the source is read anew for its training part.
    #[expect(clippy::type_complexity, reason = "two sources in a pair read better than a name for them")]
    pub fn folds(
        &self,
        count: usize,
    ) -> Result<impl Iterator<Item = Result<(Arc<dyn Source>, Arc<dyn Source>), Error>>, Error> {
        let mut folds: Vec<Vec<u64>> = vec![Vec::new(); count];
        let strata = self.strata();
        match &self.by {
            // Each class goes round where the last one has stopped, so that folds are of one size.
            By::Chance | By::Class(_) => {
                for (at, index) in strata.into_iter().flatten().enumerate() {
                    folds[at % count].push(index);
                }
            }
            By::Group(_) => {
                if strata.len() < count {
                    let expected = format!("at most {}, as many as there are groups", strata.len());
                    return Err(Error::BadSetting { setting: "folds", expected, found: count.to_string() });
                }
                // The largest first, each to the fold that has least.
                let mut strata = strata;
                strata.sort_by_key(|group| std::cmp::Reverse(group.len()));
                for group in strata {
                    let fold = folds.iter_mut().min_by_key(|fold| fold.len()).expect("at least one fold");
                    fold.extend(group);
                }
            }
        }
        Ok(folds.into_iter().map(|judged| self.parts(self.without(&judged), judged)))
    }

    /// All examples by what they belong to, in an order of chance.
    fn strata(&self) -> Vec<Vec<u64>> {
        let examples = self.source.examples() as u64;
        let chance = Permutation::new(examples, self.seed);
        let all = (0..examples).map(|at| chance.at(at));
        let numbers = match &self.by {
            By::Chance => return vec![all.collect()],
            By::Class(numbers) | By::Group(numbers) => numbers,
        };
        let mut places: HashMap<u32, usize> = HashMap::new();
        let mut strata: Vec<Vec<u64>> = Vec::new();
        for index in all {
            let place = *places.entry(numbers[index as usize]).or_insert(strata.len());
            if place == strata.len() {
                strata.push(Vec::new());
            }
            strata[place].push(index);
        }
        strata
    }

    /// All examples but these.
    fn without(&self, these: &[u64]) -> Vec<u64> {
        let mut is_left = vec![true; self.source.examples()];
        these.iter().for_each(|index| is_left[*index as usize] = false);
        (0..is_left.len() as u64).filter(|index| is_left[*index as usize]).collect()
    }

    /// The examples to learn from and those held out; both are read as the former say.
    #[expect(clippy::type_complexity, reason = "two sources in a pair read better than a name for them")]
    fn parts(
        &self,
        mut learned: Vec<u64>,
        mut held_out: Vec<u64>,
    ) -> Result<(Arc<dyn Source>, Arc<dyn Source>), Error> {
        learned.sort_unstable();
        held_out.sort_unstable();
        let fitted = if learned.is_empty() { None } else { self.source.fitted_to(&learned)? };
        let source = fitted.unwrap_or_else(|| self.source.clone());
        let of = |indices| Subset::of(source.clone(), indices);
        Ok((Arc::new(of(learned)?), Arc::new(of(held_out)?)))
    }
}

/// The class of every example.
fn classes(source: &dyn Source) -> Result<Vec<u32>, Error> {
    if !matches!(source.shape().targets, TargetShape::Classes { .. }) {
        let expected = "set for data whose targets are classes".to_owned();
        return Err(Error::BadSetting { setting: "data.stratified", expected, found: "set for other data".into() });
    }
    let mut all = Vec::with_capacity(source.examples());
    for_each_piece(source, |batch| {
        if let Targets::Classes(classes) = &batch.targets {
            all.extend_from_slice(classes);
        }
        Ok(())
    })?;
    Ok(all)
}

/// How many examples there are of each class; none where targets are no classes.
pub fn class_counts(source: &dyn Source) -> Result<Option<Vec<u64>>, Error> {
    let TargetShape::Classes { names } = &source.shape().targets else { return Ok(None) };
    let mut counts = vec![0; names.len()];
    for class in classes(source)? {
        counts[class as usize] += 1;
    }
    Ok(Some(counts))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;

    use paceline_model::{Batch, Targets};

    use super::Division;
    use crate::{Arrays, ExampleShape, OpenOptions, Source, TargetShape, open};

    /// 60 examples, of which each third, sixth and so on is of another class; the feature is the index.
    fn source() -> Arc<dyn Source> {
        let names = ["a", "b"].map(str::to_owned).to_vec();
        let shape = ExampleShape { features: vec![1], targets: TargetShape::Classes { names } };
        let features = (0..60).map(|index| index as f32).collect();
        let classes = (0..60).map(|index| u32::from(index % 3 == 0)).collect();
        Arc::new(Arrays::new(features, shape, Targets::Classes(classes)).expect("they fit"))
    }

    fn indices(source: &dyn Source) -> Vec<u64> {
        let mut batch = Batch::empty();
        source.read(&(0..source.examples() as u64).collect::<Vec<u64>>(), &mut batch).expect("examples");
        batch.indices
    }

    #[test]
    fn parts_hold_everything_once_and_follow_the_seed() {
        let groups: Vec<u32> = (0..60).map(|index| index / 7).collect();
        for (name, division) in [
            ("chance", Division::by_chance(source(), 5)),
            ("class", Division::by_class(source(), 5).expect("classes")),
            ("group", Division::by_group(source(), 5, groups)),
        ] {
            let (first, second) = division.split(0.7).expect("parts");
            let mut all = [indices(&*first), indices(&*second)].concat();
            assert!(first.examples().abs_diff(42) <= 3 && indices(&*first).is_sorted(), "{name}: {}", first.examples());
            assert_eq!(indices(&*division.split(0.7).expect("parts").0), indices(&*first), "{name}");
            all.sort_unstable();
            assert_eq!(all, (0..60).collect::<Vec<u64>>(), "{name}");
            let folds = division.folds(4).expect("folds");
            let folds: Vec<_> = folds.collect::<Result<_, _>>().expect("parts");
            let mut judged: Vec<u64> = folds.iter().flat_map(|(_, judged)| indices(&**judged)).collect();
            judged.sort_unstable();
            assert_eq!(judged, all, "{name}: every example is judged once");
            for (learned, judged) in &folds {
                assert_eq!(learned.examples() + judged.examples(), 60);
                assert!(judged.examples().abs_diff(15) <= if name == "group" { 7 } else { 0 }, "{name}");
            }
        }
    }

    #[test]
    fn every_part_has_its_share_of_each_class() {
        let division = Division::by_class(source(), 1).expect("classes");
        let rare = |source: &dyn Source| indices(source).iter().filter(|index| *index % 3 == 0).count();
        let (first, second) = division.split(0.8).expect("parts");
        assert_eq!((rare(&*first), rare(&*second)), (16, 4));
        assert!(division.folds(5).expect("folds").all(|fold| rare(&*fold.expect("parts").1) == 4));
    }

    #[test]
    fn what_belongs_together_stays_together_and_is_no_feature() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("table.csv");
        let row =
            |at: usize| format!("{},p{},{}\n", if at == 4 { String::new() } else { at.to_string() }, at / 3, at % 2);
        std::fs::write(&path, format!("x,patient,y\n{}", (0..30).map(row).collect::<String>())).expect("a file");
        let spec = format!("csv:{}?label=y&group=patient&missing=drop", path.display());
        let options = OpenOptions::default();
        let source = open(&spec, &options).expect("a table");
        assert_eq!((source.examples(), source.shape().width()), (29, 1));
        let groups = source.groups().expect("groups");
        assert_eq!(groups[..6], [0, 0, 0, 1, 1, 2], "the row without a value is left out");
        let of = groups.clone();
        let division = Division::by_group(source, 3, groups);
        let (first, second) = division.split(0.5).expect("parts");
        let met =
            |source: &dyn Source| indices(source).iter().map(|index| of[*index as usize]).collect::<BTreeSet<u32>>();
        assert!(met(&*first).is_disjoint(&met(&*second)));
        assert!(division.folds(11).is_err(), "there are ten of them");
    }
}
