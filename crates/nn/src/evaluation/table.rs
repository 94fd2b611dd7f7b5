use std::fmt::{self, Display};

/// The longest name that is displayed whole.
const NAME_CHARS: usize = 16;
/// How much of the end of a longer name is kept: there `class_10` and `class_11` differ.
const NAME_END: usize = 6;

/// Lines of cells whose columns are aligned: the first to the left, the others to the right.
pub(super) struct Table {
    lines: Vec<Vec<String>>,
}

impl Table {
    pub(super) fn new<const N: usize>(heads: [&str; N]) -> Self {
        Self { lines: vec![heads.map(String::from).to_vec()] }
    }

    pub(super) fn from_heads(heads: Vec<String>) -> Self {
        Self { lines: vec![heads] }
    }

    pub(super) fn line(&mut self, cells: impl IntoIterator<Item = String>) {
        self.lines.push(cells.into_iter().collect());
    }
}

impl Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.lines.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                self.lines
                    .iter()
                    .filter_map(|line| line.get(column))
                    .map(|cell| cell.chars().count())
                    .max()
                    .unwrap_or(0)
            })
            .collect();
        for line in &self.lines {
            for (column, (cell, &width)) in line.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "{cell:<width$}")?,
                    _ => write!(f, "  {cell:>width$}")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// `name`, with its middle left out where it is too long for a column.
pub(super) fn shortened(name: &str) -> String {
    let length = name.chars().count();
    if length <= NAME_CHARS {
        return name.to_owned();
    }
    let start: String = name.chars().take(NAME_CHARS - NAME_END - 1).collect();
    let end: String = name.chars().skip(length - NAME_END).collect();
    format!("{start}…{end}")
}

/// A count, or a sum of weights that is not whole.
pub(super) fn amount(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// A score between −1 and 1; `-` where it is undefined.
pub(super) fn score(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.4}"))
}

/// The line that says how many examples had outputs that are not finite, and what was made of them; none of none.
pub(super) fn not_finite_line(f: &mut fmt::Formatter<'_>, examples: u64, treatment: &str) -> fmt::Result {
    match examples {
        0 => Ok(()),
        _ => writeln!(f, "Examples with outputs that are not finite: {examples} ({treatment})."),
    }
}

#[cfg(test)]
mod tests {
    use super::{Table, shortened};

    #[test]
    fn columns_are_aligned_by_characters_not_bytes() {
        let mut table = Table::new(["", "n"]);
        table.line(["größe".to_owned(), "10".to_owned()]);
        table.line(["b".to_owned(), "5".to_owned()]);
        assert_eq!(table.to_string(), "        n\ngröße  10\nb       5\n");
    }

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(shortened("sixteen letters!"), "sixteen letters!");
        assert_eq!(shortened("a_very_long_class_name_10"), "a_very_lo…ame_10");
    }
}
