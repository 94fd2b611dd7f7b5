use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

/// A name that nobody else has: 32 hexadecimal digits. Not a secret.
pub(super) fn nonce() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    // Each `RandomState` has keys of its own, from the operating system's randomness.
    let half = || {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        hasher.write_u128(now.as_nanos());
        hasher.finish()
    };
    format!("{:016x}{:016x}", half(), half())
}
