//! Runs every model.

#[test]
fn claims_are_taken_once() {
    paceline_loom::claims_are_taken_once();
}

#[test]
fn a_gate_lets_nobody_through_early() {
    paceline_loom::a_gate_lets_nobody_through_early();
}

#[test]
fn a_nudge_is_never_missed() {
    paceline_loom::a_nudge_is_never_missed();
}

#[test]
fn a_broken_gate_holds_nobody() {
    paceline_loom::a_broken_gate_holds_nobody();
}

#[test]
fn common_work_is_done_once_and_seen_by_all() {
    paceline_loom::common_work_is_done_once_and_seen_by_all();
}
