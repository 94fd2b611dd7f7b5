//! What needs root or a service: hosts with cables between them, a ZooKeeper. `make test-system` runs it.

mod large_state;
#[path = "../support/masters.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod masters;
mod memory;
mod namespaces;
#[path = "../support/paceline.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod paceline;
mod users;
mod zookeeper;
#[path = "../../../cluster/tests/support/zookeeper.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod zookeeper_server;
