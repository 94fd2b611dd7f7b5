use crate::spec::{expect_name, percent_decoded};
use crate::{Error, Task};

/// The options of `shards:folder?key=value&…`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ShardOptions {
    /// `label=species`: the column to predict; several (`label=a,b`), or one of lists, are numbers to predict.
    pub(super) label: Vec<String>,
    /// `columns=a,b,c`: the features, numbers or lists of numbers; left out: every column but label and weight.
    pub(super) columns: Option<Vec<String>>,
    /// `drop=a,b`: columns that are not features.
    pub(super) drop: Vec<String>,
    /// `weight=column`: the weight of each example.
    pub(super) weight: Option<String>,
    /// `task=classes|regression`; left out, decided as for a table.
    pub(super) task: Option<Task>,
    /// `classes=a,b`: all classes there are, in their order; `%252C` stands for a comma within a name.
    pub(super) classes: Option<Vec<String>>,
    /// `shape=28x28x1`: what the features of an example are; left out, a row of numbers.
    pub(super) shape: Option<Vec<usize>>,
    /// `images=yes`: the features are pixels from 0 to 255.
    pub(super) images: bool,
}

impl ShardOptions {
    const NAMES: [&str; 8] = ["label", "columns", "drop", "weight", "task", "classes", "shape", "images"];

    pub(super) fn parse(pairs: &[(&str, String)]) -> Result<Self, Error> {
        let mut options = Self::default();
        for (key, value) in pairs {
            let list = || value.split(',').map(|name| name.trim().to_owned()).collect::<Vec<_>>();
            match *key {
                "label" => options.label = list(),
                "columns" => options.columns = Some(list()),
                "drop" => options.drop = list(),
                "weight" => options.weight = Some(value.clone()),
                "classes" => options.classes = Some(list().iter().map(|name| percent_decoded(name)).collect()),
                "task" => {
                    expect_name("value of `task`", value, &["classes", "regression"])?;
                    options.task = Some(if value == "classes" { Task::Classes } else { Task::Regression });
                }
                "shape" => options.shape = Some(parse_shape(value)?),
                "images" => {
                    expect_name("value of `images`", value, &["yes", "no"])?;
                    options.images = value == "yes";
                }
                _ => expect_name("option of `shards:`", key, &Self::NAMES)?,
            }
        }
        if options.label.len() > 1 && options.task == Some(Task::Classes) {
            let (expected, found) = ("one column when `task=classes`".to_owned(), options.label.join(","));
            return Err(Error::BadSetting { setting: "label", expected, found });
        }
        Ok(options)
    }
}

/// `28x28x1`: one size, or three.
fn parse_shape(value: &str) -> Result<Vec<usize>, Error> {
    let sizes: Option<Vec<usize>> = value.split('x').map(|size| size.parse().ok().filter(|size| *size > 0)).collect();
    let whole = |sizes: &Vec<usize>| {
        let product = sizes.iter().try_fold(1_usize, |product, size| product.checked_mul(*size));
        matches!(sizes.len(), 1 | 3) && product.is_some_and(|product| product <= 1 << 30)
    };
    sizes.filter(whole).ok_or_else(|| Error::BadSetting {
        setting: "shape",
        expected: "`n`, or `height`x`width`x`channels` as in 28x28x1".to_owned(),
        found: format!("`{value}`"),
    })
}

#[cfg(test)]
mod tests {
    use super::ShardOptions;

    fn parse(key: &str, value: &str) -> Result<ShardOptions, String> {
        ShardOptions::parse(&[(key, value.to_owned())]).map_err(|error| error.to_string())
    }

    #[test]
    fn shapes_and_names_are_read_and_what_makes_no_sense_is_said() {
        assert_eq!(parse("shape", "28x28x1").map(|options| options.shape), Ok(Some(vec![28, 28, 1])));
        let classes = parse("classes", "a%2Cb,c").map(|options| options.classes);
        assert_eq!(classes, Ok(Some(vec!["a,b".to_owned(), "c".to_owned()])));
        for bad in ["", "0", "28x28", "1x2x3x4", "99999999999x9999999999x99", "a"] {
            assert!(parse("shape", bad).is_err_and(|error| error.contains("28x28x1")), "{bad}");
        }
        assert!(parse("lable", "x").is_err_and(|error| error.contains("did you mean `label`?")));
        assert!(parse("images", "maybe").is_err());
    }
}
