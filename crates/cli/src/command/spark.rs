//! What starts programs of the Python package on a Spark cluster, through Spark's own `spark-submit`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::arguments::Spark;
use crate::failure::{Exit, FAILED, Misuse};

/// A program of the package with its arguments, as Spark is asked to run it.
pub(super) fn asked(
    spark: &Spark,
    master: &str,
    name: &str,
    module: &str,
    arguments: &[String],
) -> Result<Vec<String>> {
    let python = spark.python.clone().unwrap_or_else(|| "python3".into());
    let (script, beside) = find(&python, module)?;
    let submit = match (&spark.spark_submit, std::env::var_os("SPARK_HOME")) {
        (Some(path), _) => path.clone(),
        (None, Some(home)) => PathBuf::from(home).join("bin/spark-submit"),
        // Where `pip install pyspark` puts it.
        (None, None) if beside.join("spark-submit").exists() => beside.join("spark-submit"),
        (None, None) => "spark-submit".into(),
    };
    let mut command =
        vec![submit.display().to_string(), "--master".into(), master.into(), "--name".into(), name.into()];
    let mut set = |setting: String| command.extend(["--conf".to_owned(), setting]);
    if let Some(environment) = &spark.environment {
        set(format!("spark.archives={}#environment", environment.display()));
        set("spark.pyspark.python=./environment/bin/python".into());
    }
    spark.conf.iter().cloned().for_each(set);
    command.push(script);
    command.extend_from_slice(arguments);
    Ok(command)
}

/// Where a module of the package lies, and the folder of the interpreter that has it.
fn find(python: &Path, module: &str) -> Result<(String, PathBuf)> {
    let code = format!(
        "import importlib.util, os, sys; print(importlib.util.find_spec('{module}').origin); print(os.path.dirname(sys.executable))"
    );
    let found = Command::new(python).args(["-c", &code]).output();
    let output = match &found {
        Ok(output) if output.status.success() => String::from_utf8_lossy(&output.stdout).into_owned(),
        _ => String::new(),
    };
    match output.lines().collect::<Vec<_>>()[..] {
        [script, folder] => Ok((script.to_owned(), folder.into())),
        _ => bail!(Misuse(format!(
            "`{}` has no package `paceline` with `paceline.spark`: name one that has with `--python`, after `pip install 'paceline[spark]'`",
            python.display()
        ))),
    }
}

/// Runs it, and ends as it ends.
pub(super) fn run(command: &[String]) -> Result<Exit> {
    let status = match Command::new(&command[0]).args(&command[1..]).status() {
        Ok(status) => status,
        Err(error) => bail!(Misuse(format!(
            "cannot run `{}`: {error}; name Spark's with `--spark-submit`, or set `SPARK_HOME`",
            command[0]
        ))),
    };
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(FAILED))
}

/// A command as a shell takes it.
pub(super) fn shown(command: &[String]) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@#%".contains(c);
    let quote = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    command.iter().map(quote).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn what_is_shown_is_what_a_shell_would_run() {
        let words = ["spark-submit", "--conf", "a=b c", "it's", ""].map(str::to_owned);
        assert_eq!(shown(&words), r"spark-submit --conf 'a=b c' 'it'\''s' ''");
    }
}
