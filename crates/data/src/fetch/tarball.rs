//! As much of the tar format as a package needs: plain files with short names.
//!
//! ```text
//! byte 0 … 99   124 … 135       156      512 …                      next multiple of 512
//!      name     size in octal   type     content, padded with 0     the next header
//! ```
//!
//! Type `0` or a zero byte is a plain file. Two blocks of zeros end the archive.

use std::io::{self, Read};
use std::path::Path;

use flate2::read::GzDecoder;

use crate::Error;

const BLOCK: usize = 512;

/// Calls `visit` with the name, the length and the content of every plain file of a `.tgz`.
pub(super) fn for_each_file(
    reader: impl Read,
    path: &Path,
    mut visit: impl FnMut(&str, u64, &mut dyn Read) -> Result<(), Error>,
) -> Result<(), Error> {
    let broken = |source| Error::BrokenGzip { path: path.to_owned(), source };
    let mut reader = GzDecoder::new(reader);
    let mut header = [0; BLOCK];
    loop {
        reader.read_exact(&mut header).map_err(broken)?;
        if header.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        let length = octal(&header[124..136])
            .ok_or_else(|| broken(io::Error::new(io::ErrorKind::InvalidData, "a tar header without a size")))?;
        let padded = length.next_multiple_of(BLOCK as u64);
        let mut content = reader.by_ref().take(padded);
        if matches!(header[156], 0 | b'0') {
            let name = header[..100].split(|byte| *byte == 0).next().unwrap_or_default();
            let mut file = content.by_ref().take(length);
            visit(&String::from_utf8_lossy(name), length, &mut file)?;
        }
        io::copy(&mut content, &mut io::sink()).map_err(broken)?;
    }
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    // More digits than a size can have would overflow `next_multiple_of` later.
    u64::from_str_radix(text, 8).ok().filter(|length| *length < 1 << 40)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::for_each_file;
    use crate::Error;

    fn archive(files: &[(&str, &[u8])], end: bool) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        for (name, content) in files {
            let mut header = [0u8; 512];
            header[..name.len()].copy_from_slice(name.as_bytes());
            header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
            header[156] = b'0';
            packed.write_all(&header).unwrap();
            packed.write_all(content).unwrap();
            packed.write_all(&vec![0; content.len().next_multiple_of(512) - content.len()]).unwrap();
        }
        packed.write_all(&vec![0; if end { 1024 } else { 0 }]).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn every_file_is_visited_also_when_an_earlier_one_is_not_read() {
        let bytes = archive(&[("a", &[7; 700]), ("b/c", b"hello"), ("d", b"")], true);
        let mut seen = Vec::new();
        for_each_file(&bytes[..], Path::new("x.tgz"), |name, length, reader| {
            let mut text = String::new();
            if name == "b/c" {
                reader.read_to_string(&mut text).unwrap();
            }
            seen.push((name.to_owned(), length, text));
            Ok(())
        })
        .unwrap();
        let expected = [("a", 700, ""), ("b/c", 5, "hello"), ("d", 0, "")];
        assert_eq!(seen, expected.map(|(name, length, text)| (name.to_owned(), length, text.to_owned())));
    }

    #[test]
    fn an_archive_without_its_end_is_an_error() {
        let bytes = archive(&[("a", &[7; 700])], false);
        let result = for_each_file(&bytes[..], Path::new("x.tgz"), |_, _, _| Ok(()));
        assert!(matches!(result, Err(Error::BrokenGzip { .. })));
    }
}
