//! The place of an example where data lives with workers: it says which partition it is of, whatever lies in the others.

/// The number of a partition, from 0.
pub type PartitionId = u32;

/// Bits of a place within its partition.
const WITHIN: u32 = 40;

/// No partition has more examples.
pub const MOST_IN_A_PARTITION: u64 = 1 << WITHIN;

/// No data has more partitions.
pub const MOST_PARTITIONS: u32 = 1 << (u64::BITS - WITHIN - 1);

/// The place of an example of a partition.
pub fn place_of(partition: PartitionId, index: u64) -> u64 {
    (u64::from(partition) << WITHIN) + index
}

/// The partition of a place, and the example within it.
pub fn within_partition(place: u64) -> (PartitionId, u64) {
    ((place >> WITHIN) as PartitionId, place & (MOST_IN_A_PARTITION - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_says_which_example_of_which_partition_it_is() {
        for (partition, index) in [(0, 0), (0, 7), (3, 0), (MOST_PARTITIONS - 1, MOST_IN_A_PARTITION - 1)] {
            assert_eq!(within_partition(place_of(partition, index)), (partition, index));
        }
    }
}
