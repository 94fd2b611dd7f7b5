//! Who leads, with every coordinator: what all of them hold, and what only one has.

mod embedded;
#[path = "../../support/link.rs"]
mod link;
mod suite;
mod zookeeper;
#[path = "../../support/zookeeper.rs"]
mod zookeeper_server;

/// One test for every promise of the trait, with candidates that `$maker` makes for one coordinator.
macro_rules! conformance {
    ($coordinator:expr, $($promise:ident,)+) => {
        $(
            #[test]
            fn $promise() {
                let coordinator = $coordinator;
                crate::coordination::suite::$promise(&|| coordinator.candidate());
            }
        )+
    };
    ($coordinator:expr) => {
        crate::coordination::conformance!(
            $coordinator,
            terms_grow_from_leader_to_leader,
            a_leader_that_leads_again_takes_a_new_term,
            a_second_candidate_waits_and_leads_after_the_first_resigned,
            a_second_candidate_waits_and_leads_after_the_first_was_dropped,
            a_candidate_that_leaves_the_queue_does_not_let_the_next_one_lead,
            candidates_in_a_hurry_never_share_a_term,
            an_old_leader_cannot_publish,
            who_does_not_lead_is_told_so,
            what_was_published_survives_its_leader,
            a_record_of_another_term_or_too_large_is_refused_and_the_old_one_stays,
            find_waits_for_a_newer_term,
            nobody_is_found_when_nobody_leads,
            a_leader_that_has_not_published_is_not_found,
            workers_appear_and_vanish,
        );
    };
}
use conformance;
