use std::fs::{File, OpenOptions};
use std::io::{BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

use flate2::read::MultiGzDecoder;
use ureq::Agent;
use ureq::http::{Response, StatusCode, header};

use super::checksum::KnownFile;
use super::{FetchProgress, Progress};
use crate::Error;

/// How often a download that breaks off is taken up again.
const MOST_TRIES: usize = 5;

/// Brings one file from a mirror: the compressed file into `.part`, then unpacked, checked and renamed.
pub(super) fn from_mirror(
    file: &KnownFile,
    mirror: &str,
    folder: &Path,
    progress: Option<&Progress>,
) -> Result<(), Error> {
    let url = format!("{}/{}.gz", mirror.trim_end_matches('/'), file.name);
    let part = folder.join(format!("{}.gz.part", file.name));
    // What an earlier run left may be of another mirror; if it does not fit, one try from the start is due.
    let inherited = part.metadata().is_ok_and(|part| part.len() > 0);
    let attempt = || {
        // Compressed data is never longer than this, so that an endless answer cannot fill the disk.
        let limit = file.bytes + file.bytes / 100 + 4096;
        download(&url, &part, limit, |received, total| {
            if let Some(progress) = progress {
                progress(FetchProgress { file: file.name.to_owned(), origin: mirror.to_owned(), received, total });
            }
        })?;
        let stored = unpack(file, &part, folder, &url);
        // Right or wrong, it has served: a wrong one would only spoil the next try.
        std::fs::remove_file(&part).map_err(Error::file("remove", &part))?;
        stored
    };
    match attempt() {
        Err(Error::Checksum { .. } | Error::BrokenGzip { .. }) if inherited => attempt(),
        result => result,
    }
}

fn unpack(file: &KnownFile, part: &Path, folder: &Path, url: &str) -> Result<(), Error> {
    let packed = File::open(part).map_err(Error::file("open", part))?;
    let reader = MultiGzDecoder::new(BufReader::new(packed));
    file.store(reader, folder, url, |source| Error::BrokenGzip { path: part.to_owned(), source })
}

/// Downloads into `part`, going on from what is there; tries again as long as every try brings something.
fn download(url: &str, part: &Path, limit: u64, progress: impl Fn(u64, Option<u64>)) -> Result<(), Error> {
    // An offline machine should find out in seconds, a slow line should get its time.
    let agent: Agent = Agent::config_builder()
        .timeout_resolve(Some(Duration::from_secs(3)))
        .timeout_connect(Some(Duration::from_secs(4)))
        .timeout_recv_response(Some(Duration::from_secs(15)))
        .timeout_per_read(Some(Duration::from_secs(30)))
        .http_status_as_error(false)
        .build()
        .into();
    let mut tries = 0;
    loop {
        let before = part.metadata().map_or(0, |part| part.len());
        tries += 1;
        match continue_download(&agent, url, part, before, limit, &progress) {
            Ok(()) => return Ok(()),
            Err(Broken::For(error)) => return Err(error),
            Err(Broken::Off { expected }) => {
                let found = part.metadata().map_or(0, |part| part.len());
                if found <= before || tries == MOST_TRIES {
                    return Err(Error::BrokenDownload { url: url.to_owned(), expected, found });
                }
            }
            Err(Broken::StalePart) => {
                std::fs::remove_file(part).map_err(Error::file("remove", part))?;
            }
        }
    }
}

/// Why one request did not bring the rest of the file.
enum Broken {
    /// The connection ended early: what came is kept.
    Off { expected: Option<u64> },
    /// The server does not have such a rest: what we hold is of no use.
    StalePart,
    /// Trying again is of no use.
    For(Error),
}

fn continue_download(
    agent: &Agent,
    url: &str,
    part: &Path,
    held: u64,
    limit: u64,
    progress: &impl Fn(u64, Option<u64>),
) -> Result<(), Broken> {
    let failed = |source: ureq::Error| Broken::For(Error::Request { url: url.to_owned(), source: source.into() });
    let mut request = agent.get(url);
    if held > 0 {
        request = request.header(header::RANGE, format!("bytes={held}-"));
    }
    let mut response = request.call().map_err(failed)?;
    let start = match response.status() {
        StatusCode::OK => 0,
        StatusCode::PARTIAL_CONTENT if range_start(&response) == Some(held) => held,
        StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE if held > 0 => return Err(Broken::StalePart),
        status => return Err(failed(ureq::Error::StatusCode(status.as_u16()))),
    };
    let total = response.body().content_length().map(|rest| start + rest);
    let too_large = || Broken::For(Error::DownloadTooLarge { url: url.to_owned(), limit });
    if total.is_some_and(|total| total > limit) {
        return Err(too_large());
    }
    let file_error = |action| move |source| Broken::For(Error::File { action, path: part.to_owned(), source });
    let mut file = OpenOptions::new().create(true).append(true).open(part).map_err(file_error("open"))?;
    // A server that ignores the range sends everything: so do we start over.
    file.set_len(start).map_err(file_error("write"))?;
    let mut reader = response.body_mut().with_config().limit(limit + 1).reader();
    let (mut received, mut buffer) = (start, vec![0; 1 << 16]);
    progress(received, total);
    loop {
        let read = match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(_) => return Err(Broken::Off { expected: total }),
        };
        received += read as u64;
        if received > limit {
            drop(file);
            let _ = std::fs::remove_file(part);
            return Err(too_large());
        }
        file.write_all(&buffer[..read]).map_err(file_error("write"))?;
        progress(received, total);
    }
    match total {
        Some(total) if received < total => Err(Broken::Off { expected: Some(total) }),
        _ => Ok(()),
    }
}

/// The first byte that a partial answer holds: `Content-Range: bytes 100-199/200`.
fn range_start<T>(response: &Response<T>) -> Option<u64> {
    let range = response.headers().get(header::CONTENT_RANGE)?.to_str().ok()?;
    range.strip_prefix("bytes ")?.split('-').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests;
