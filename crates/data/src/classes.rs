/// The different labels, sorted: by size, if all are numbers.
pub(crate) fn names_of(labels: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = labels.collect();
    names.sort_unstable();
    names.dedup();
    if let Ok(numbers) = names.iter().map(|name| name.parse::<f64>()).collect::<Result<Vec<_>, _>>() {
        let mut places: Vec<usize> = (0..names.len()).collect();
        places.sort_by(|a, b| numbers[*a].total_cmp(&numbers[*b]));
        names = places.into_iter().map(|place| names[place].clone()).collect();
    }
    names
}
