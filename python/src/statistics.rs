use paceline::train::TrainingStatistics;
use pyo3::prelude::*;

use crate::failure::SettingError;

/// Statistics of a run, given as JSON, as a table.
#[pyfunction]
pub(crate) fn statistics_table(statistics: &str) -> PyResult<String> {
    Ok(read(statistics)?.to_string())
}

/// Statistics of a run, given as JSON, as a page with a timeline.
#[pyfunction]
pub(crate) fn statistics_page(statistics: &str, title: &str) -> PyResult<String> {
    Ok(read(statistics)?.page(title))
}

fn read(statistics: &str) -> PyResult<TrainingStatistics> {
    let unread = |error| SettingError::new_err(format!("expected statistics as a master tells them: {error}"));
    serde_json::from_str(statistics).map_err(unread)
}
