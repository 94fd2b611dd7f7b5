//! What needs a ZooKeeper: who leads when servers die and links fall silent. `make test-system` runs it.

mod link;
#[path = "../support/suite.rs"]
mod suite;
mod zookeeper;
#[path = "../support/zookeeper.rs"]
mod zookeeper_server;
