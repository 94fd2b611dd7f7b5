//! Statistics as a table: a line for each worker, and the share of its time that each phase took.

use std::fmt;

use super::{Phases, Spent, TrainingStatistics};

impl fmt::Display for TrainingStatistics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.workers.iter().map(|worker| worker.worker.len()).max().unwrap_or(0).max("worker".len());
        write!(f, "{:width$} {:>8} {:>9} {:>9}", "worker", "steps", "seconds", "ms/step")?;
        Phases::NAMES.iter().try_for_each(|name| write!(f, " {name:>8}"))?;
        for worker in &self.workers {
            writeln!(f)?;
            line(f, &worker.worker, width, &worker.spent())?;
        }
        if self.workers.len() > 1 {
            writeln!(f)?;
            line(f, "all", width, &self.spent())?;
        }
        Ok(())
    }
}

fn line(f: &mut fmt::Formatter<'_>, name: &str, width: usize, spent: &Spent) -> fmt::Result {
    let Spent { steps, phases } = spent;
    let total = phases.total();
    write!(f, "{name:width$} {steps:>8} {total:>9.1} {:>9.2}", 1e3 * total / (*steps).max(1) as f64)?;
    let share = |seconds: f64| 100.0 * seconds / total.max(f64::MIN_POSITIVE);
    phases.values().iter().try_for_each(|seconds| write!(f, " {:>6.1} %", share(*seconds)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::spent;
    use super::*;

    #[test]
    fn every_worker_has_its_line() {
        let mut statistics = TrainingStatistics::default();
        statistics.take("node1/1", 4.0, &spent(100, 3.0, 1.0));
        statistics.take("node2/2", 4.0, &spent(50, 1.0, 1.0));
        let expected = "\
worker     steps   seconds   ms/step    split  compute   encode     wait  network    apply
node1/1      100       4.0     40.00    0.0 %   75.0 %    0.0 %   25.0 %    0.0 %    0.0 %
node2/2       50       2.0     40.00    0.0 %   50.0 %    0.0 %   50.0 %    0.0 %    0.0 %
all          150       6.0     40.00    0.0 %   66.7 %    0.0 %   33.3 %    0.0 %    0.0 %";
        assert_eq!(statistics.to_string(), expected);
    }
}
