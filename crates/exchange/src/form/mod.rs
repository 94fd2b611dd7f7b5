//! The ways a message is written. Each form is a file with the same three verbs: `write`, `check` and `add_to`.

pub(crate) mod bitmap;
pub(crate) mod dense;
pub(crate) mod sparse;

use serde::{Deserialize, Serialize};

/// The ways a message is written.
///
/// All of them begin with the same header; numbers are little-endian, bits are counted from the lowest of a byte.
///
/// ```text
/// byte   0        1      2        3      4          8          12       16
///        ┌────────┬──────┬────────┬──────┬──────────┬──────────┬────────┬──────────
///        │version │ form │ Rice k │ zero │threshold │ elements │  sent  │ payload …
///        │   u8   │  u8  │   u8   │  u8  │   f32    │   u32    │  u32   │
///        └────────┴──────┴────────┴──────┴──────────┴──────────┴────────┴──────────
///
/// sparse  ┌────────────────────────────────────────┬─────────────────────────────────────┐
///         │ sent fields of k + 1 bits              │ sent quotients in unary             │
///         │ sign | (gap mod 2ᵏ) << 1               │ gap >> k zeros, then a one          │
///         └────────────────────────────────────────┴─────────────────────────────────────┘
/// bitmap  ┌────────────────────────────────────────┬─────────────────────────────────────┐
///         │ one bit an element: sent               │ one bit an element: negative        │
///         └────────────────────────────────────────┴─────────────────────────────────────┘
/// dense   ┌──────────────────────────────────────────────────────────────────────────────┐
///         │ one f32 an element                                                           │
///         └──────────────────────────────────────────────────────────────────────────────┘
/// ```
///
/// A section ends in the byte of its last bit, and what is left of that byte is 0. A gap is the number of elements that
/// are not sent between one that is and the one before it. A sign bit is 1 for `-threshold`. In a dense message the
/// threshold is 0 and `sent` is the number of elements. `k` is 0 in all but sparse messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// Golomb-Rice coded gaps, and a sign each: about the entropy of random places, at any sparsity.
    Sparse,
    /// Two bits for every element: 0, + or −.
    Bitmap,
    /// The whole residual as it is; only ever when asked for, because a bitmap is always smaller.
    Dense,
}

impl Form {
    /// The form in which `sent` of `elements` elements are written.
    ///
    /// With k = 0 the sparse form has one bit for every element and one for every sent one, so it is never larger than
    /// the bitmap. But the bitmap needs no work for each sent element, and is taken where it is less than an eighth
    /// larger: from about three quarters of the elements on.
    pub(crate) fn of(elements: u32, sent: u32) -> Self {
        let sparse = sparse::most_bits(elements, sent, sparse::rice_parameter(elements, sent));
        let bitmap = 2 * u64::from(elements);
        if sent > 0 && 8 * sparse > 7 * bitmap { Form::Bitmap } else { Form::Sparse }
    }

    pub(crate) fn byte(self) -> u8 {
        match self {
            Form::Sparse => 0,
            Form::Bitmap => 1,
            Form::Dense => 2,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        [Form::Sparse, Form::Bitmap, Form::Dense].into_iter().find(|form| form.byte() == byte)
    }
}

impl std::fmt::Display for Form {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Form::Sparse => "sparse",
            Form::Bitmap => "bitmap",
            Form::Dense => "dense",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Form;

    #[test]
    fn a_bitmap_is_taken_where_it_costs_less_than_an_eighth() {
        assert_eq!(Form::of(1_000_000, 0), Form::Sparse);
        assert_eq!(Form::of(1_000_000, 1_000), Form::Sparse);
        assert_eq!(Form::of(1_000_000, 750_000), Form::Sparse);
        assert_eq!(Form::of(1_000_000, 750_001), Form::Bitmap);
        assert_eq!(Form::of(1_000_000, 1_000_000), Form::Bitmap);
        assert_eq!(Form::of(u32::MAX, u32::MAX), Form::Bitmap);
        assert_eq!(Form::of(0, 0), Form::Sparse);
    }
}
