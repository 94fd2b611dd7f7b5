mod table;

use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use paceline_cluster::tracker::RunStatus;
use paceline_cluster::trust::Token;
use ureq::Agent;
use ureq::http::header::AUTHORIZATION;
use ureq::http::{StatusCode, Uri};

use crate::arguments;
use crate::failure::{DONE, Exit, Misuse};

/// How long one question may take, from the name of the host to the last byte of the answer.
const LIMIT: Duration = Duration::from_secs(4);

/// Bytes of an answer; a state of ten thousand workers has about a million.
const LARGEST: u64 = 64 << 20;

pub(crate) fn run(arguments: &arguments::Status) -> Result<Exit> {
    let master = Master::new(&arguments.address, arguments.token_file.as_deref())?;
    // Each table takes the place of the one before, or stands below it.
    let between = if std::io::stdout().is_terminal() { "\x1b[2J\x1b[H" } else { "\n" };
    let mut before = "";
    loop {
        let (text, status) = master.ask()?;
        let is_read =
            if arguments.json { show(text.trim_end())? } else { show(&format!("{before}{}", table::of(&status)))? };
        match arguments.watch {
            Some(seconds) if is_read && status.phase != "ended" => {
                std::thread::sleep(Duration::from_secs(seconds.into()));
                before = between;
            }
            _ => return Ok(DONE),
        }
    }
}

/// Writes to standard output; whether anybody still reads it.
fn show(text: &str) -> Result<bool> {
    let mut output = std::io::stdout().lock();
    match writeln!(output, "{text}").and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        written => written.map(|()| true).context("cannot write to standard output"),
    }
}

/// Whom to ask, and how.
struct Master {
    address: String,
    token: Option<Token>,
    agent: Agent,
}

impl Master {
    fn new(address: &str, token_file: Option<&Path>) -> Result<Self> {
        let plain = address.strip_prefix("http://").unwrap_or(address);
        let plain = plain.strip_suffix('/').unwrap_or(plain);
        let uri: Option<Uri> = format!("http://{plain}/status").parse().ok();
        let authority = uri.as_ref().and_then(Uri::authority).filter(|found| found.as_str() == plain);
        if !authority.is_some_and(|found| found.port_u16().is_some_and(|port| port > 0) && !plain.contains('@')) {
            bail!(Misuse(format!("`{address}` is no address of a master, expected `HOST:PORT`")));
        }
        // Straight to the master: a proxy has no business with its token, and none with a loopback address.
        let config = Agent::config_builder().timeout_global(Some(LIMIT)).proxy(None).max_redirects(0);
        let agent = config.http_status_as_error(false).build().new_agent();
        Ok(Self { address: plain.to_owned(), token: token_file.map(read_token).transpose()?, agent })
    }

    /// The state, as it came and as it reads.
    fn ask(&self) -> Result<(String, RunStatus)> {
        let mut request = self.agent.get(format!("http://{}/status", self.address));
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {}", token.reveal()));
        }
        let mut answer = request.call().map_err(|error| self.explain(error))?;
        let status = answer.status();
        let text = answer.body_mut().with_config().limit(LARGEST).read_to_string();
        let text = text.map_err(|error| self.explain(error))?;
        if status != StatusCode::OK {
            return Err(self.refused(status, &text));
        }
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|_| self.stranger())?;
        if value.get("run").is_none() {
            return Err(self.stranger());
        }
        let status = serde_json::from_value(value)
            .with_context(|| format!("the state that `{}` tells cannot be understood", self.address))?;
        Ok((text, status))
    }

    fn refused(&self, status: StatusCode, text: &str) -> anyhow::Error {
        let address = &self.address;
        let sentence: String = table::printable(text.lines().next().unwrap_or_default()).chars().take(300).collect();
        match (status, &self.token) {
            (StatusCode::UNAUTHORIZED, None) => {
                anyhow!("the master at `{address}` tells its state to those who know its token: give `--token-file`")
            }
            (StatusCode::UNAUTHORIZED, Some(_)) => {
                anyhow!("the token of `--token-file` is not the one of the master at `{address}`")
            }
            (StatusCode::NOT_FOUND, _) => self.stranger(),
            _ => anyhow!("`{address}` answers with status {}: {sentence}", status.as_u16()),
        }
    }

    fn stranger(&self) -> anyhow::Error {
        anyhow!("`{}` speaks HTTP, but not as the master of a run does", self.address)
    }

    fn explain(&self, error: ureq::Error) -> anyhow::Error {
        let address = &self.address;
        match error {
            ureq::Error::Timeout(_) => {
                anyhow!("`{address}` did not answer within {} s", LIMIT.as_secs())
            }
            ureq::Error::HostNotFound => anyhow!("there is no host of the name in `{address}`"),
            ureq::Error::Protocol(_) => self.no_http(),
            ureq::Error::Io(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe
                ) =>
            {
                self.no_http()
            }
            ureq::Error::Io(error) => anyhow!("nobody shows the state of a run at `{address}`: {error}"),
            error => anyhow!("`{address}` cannot be asked: {error}"),
        }
    }

    fn no_http(&self) -> anyhow::Error {
        anyhow!(
            "`{}` does not speak HTTP: it may be where workers join; the master says at its start where it shows its state",
            self.address
        )
    }
}

fn read_token(path: &Path) -> Result<Token> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
    Token::parse(text.trim()).with_context(|| format!("`{}` holds no token", path.display()))
}
