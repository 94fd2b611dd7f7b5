use anyhow::{Context, Result};
use paceline::train::Job;

use super::{say, spark};
use crate::arguments;
use crate::failure::{DONE, Exit};

pub(crate) fn run(arguments: &arguments::Submit) -> Result<Exit> {
    // What is wrong with the job is said here, and not by a cluster minutes later.
    let job = Job::read(&arguments.job, &arguments.set)?;
    let path = std::path::absolute(&arguments.job).with_context(|| format!("`{}`", arguments.job.display()))?;
    let mut of_job = vec![path.display().to_string()];
    let mut give = |name: &str, value: String| of_job.extend([format!("--{name}"), value]);
    give("output", std::path::absolute(&arguments.output)?.display().to_string());
    if let Some(workers) = arguments.workers {
        give("workers", workers.to_string());
    }
    arguments.set.iter().for_each(|setting| give("set", setting.clone()));
    let (master, name) = (&arguments.spark_master, format!("paceline {}", job.name));
    let command = spark::asked(&arguments.spark, master, &name, "paceline.spark.submitted", &of_job)?;
    if arguments.dry_run {
        say(&spark::shown(&command))?;
        return Ok(DONE);
    }
    spark::run(&command)
}
