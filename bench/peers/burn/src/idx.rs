//! IDX files of bytes: two zeros, type 8, the rank, sizes (big-endian `u32`), bytes.

use std::fs;
use std::path::Path;

/// Reads the sizes and the bytes.
pub fn read(path: &Path) -> Result<(Vec<usize>, Vec<u8>), String> {
    let shown = path.display();
    let file = fs::read(path).map_err(|error| format!("cannot read `{shown}`: {error}"))?;
    let (magic, rest) =
        file.split_at_checked(4).ok_or_else(|| format!("`{shown}` is no IDX file: {} bytes", file.len()))?;
    if magic[..3] != [0, 0, 8] {
        return Err(format!("`{shown}` is no IDX file of bytes: expected magic 00 00 08, found {magic:02x?}"));
    }
    let (header, values) = rest
        .split_at_checked(4 * usize::from(magic[3]))
        .ok_or_else(|| format!("the header of `{shown}` is cut short"))?;
    let sizes: Vec<usize> =
        header.chunks_exact(4).map(|size| u32::from_be_bytes([size[0], size[1], size[2], size[3]]) as usize).collect();
    let promised: usize = sizes.iter().product();
    if values.len() != promised {
        return Err(format!("`{shown}` promises {promised} bytes, found {}", values.len()));
    }
    Ok((sizes, values.to_vec()))
}
