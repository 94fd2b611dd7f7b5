//! Bytes as hexadecimal digits.

use super::TrustError;

pub(super) fn encode(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from_digit(u32::from(value), 16).expect("four bits are a hexadecimal digit");
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes of an even number of digits.
pub(super) fn decode(text: &str, what: &'static str) -> Result<Vec<u8>, TrustError> {
    let digits = text
        .chars()
        .enumerate()
        .map(|(at, character)| {
            let digit = character.to_digit(16).ok_or(TrustError::NotHexadecimal { what, position: at + 1 })?;
            Ok(u8::try_from(digit).expect("a hexadecimal digit is below 16"))
        })
        .collect::<Result<Vec<u8>, TrustError>>()?;
    if digits.len() % 2 == 1 {
        return Err(TrustError::BadLength { what, expected: "an even number", found: digits.len() });
    }
    Ok(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}
