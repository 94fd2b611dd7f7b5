//! The routes.

use std::net::IpAddr;

use crossbeam_channel::{Sender, TrySendError};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE, X_CONTENT_TYPE_OPTIONS};
use hyper::{Method, Request, Response, StatusCode};
use paceline_exchange::rounds::Operator;

use super::access::{Access, Refusal, Wish};
use super::{Board, exposition, metrics};

const TEXT: &str = "text/plain; charset=utf-8";

const INDEX: &str = "\
This is the master of a Paceline run.

GET  /status   its state in JSON; `paceline status ADDR` shows it as a table
GET  /metrics  its state for Prometheus
POST /pause    no new rounds
POST /resume   rounds again
POST /save     a checkpoint as soon as one can be had
POST /stop     a checkpoint, then the end
";

/// What a path stands for.
#[derive(Clone, Copy)]
enum Route {
    Index,
    Status,
    Metrics,
    /// An order, and what is said when it has been taken.
    Order(Operator, &'static str),
}

impl Route {
    fn of(path: &str) -> Option<Self> {
        Some(match path {
            "/" => Self::Index,
            "/status" => Self::Status,
            "/metrics" => Self::Metrics,
            "/pause" => Self::Order(Operator::Pause, "No new rounds will be taken until the run is resumed."),
            "/resume" => Self::Order(Operator::Resume, "Rounds will be taken again."),
            "/save" => Self::Order(Operator::Save, "A checkpoint will be written as soon as one can be had."),
            "/stop" => Self::Order(Operator::Stop, "A checkpoint will be written, then the run ends."),
            _ => return None,
        })
    }

    fn wish(self) -> Wish {
        if let Self::Order(..) = self { Wish::Order } else { Wish::Read }
    }

    /// The methods that may be used.
    fn methods(self) -> (&'static [Method], &'static str) {
        match self.wish() {
            Wish::Read => (&[Method::GET, Method::HEAD], "GET, HEAD"),
            Wish::Order => (&[Method::POST], "POST"),
        }
    }
}

/// Everything that an answer needs.
pub(super) struct Answers {
    pub(super) access: Access,
    pub(super) board: Board,
    pub(super) commands: Sender<Operator>,
    /// Bytes of the body of a request; no request needs any.
    pub(super) body_limit: usize,
}

impl Answers {
    /// The answer to a request that came to this address of ours.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
        local: IpAddr,
        is_stranger: bool,
    ) -> Response<Full<Bytes>> {
        self.granted(request, local, is_stranger).await.unwrap_or_else(|refusal| {
            let mut answer = text(refusal.status, &refusal.sentence);
            if refusal.status == StatusCode::UNAUTHORIZED {
                answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"paceline\""));
            }
            answer
        })
    }

    async fn granted(
        &self,
        request: Request<Incoming>,
        local: IpAddr,
        is_stranger: bool,
    ) -> Result<Response<Full<Bytes>>, Refusal> {
        let (request, body) = request.into_parts();
        self.access.meant_for_us(&request, local)?;
        let Some(route) = Route::of(request.uri.path()) else {
            let sentence = "There is nothing here; `/` says what there is.".to_owned();
            return Err(Refusal { status: StatusCode::NOT_FOUND, sentence });
        };
        let (methods, allowed) = route.methods();
        if !methods.contains(&request.method) {
            let sentence = format!("This takes {allowed} and nothing else.");
            let mut answer = text(StatusCode::METHOD_NOT_ALLOWED, &sentence);
            answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            return Ok(answer);
        }
        self.access.allows(route.wish(), &request.headers, is_stranger)?;
        self.pass_over(body).await?;
        Ok(match route {
            Route::Index => reply(StatusCode::OK, TEXT, INDEX),
            Route::Status => match serde_json::to_string(&self.board.read()) {
                Ok(json) => reply(StatusCode::OK, "application/json", json + "\n"),
                Err(error) => {
                    text(StatusCode::INTERNAL_SERVER_ERROR, &format!("The state cannot be written: {error}."))
                }
            },
            Route::Metrics => reply(StatusCode::OK, exposition::CONTENT_TYPE, metrics::metrics(&self.board.read())),
            Route::Order(order, promise) => match self.commands.try_send(order) {
                Ok(()) => text(StatusCode::ACCEPTED, promise),
                Err(TrySendError::Full(_)) => {
                    text(StatusCode::SERVICE_UNAVAILABLE, "The master has not yet taken earlier orders: try again.")
                }
                Err(TrySendError::Disconnected(_)) => {
                    text(StatusCode::SERVICE_UNAVAILABLE, "The run has ended and takes no more orders.")
                }
            },
        })
    }

    /// Reads a body, of which nothing is needed, to its end, so that whoever sends it hears the answer.
    async fn pass_over(&self, body: Incoming) -> Result<(), Refusal> {
        let too_large = || Refusal {
            status: StatusCode::PAYLOAD_TOO_LARGE,
            sentence: format!("A request may carry {} bytes, this one carries more.", self.body_limit),
        };
        if body.size_hint().lower() > self.body_limit as u64 {
            return Err(too_large());
        }
        match Limited::new(body, self.body_limit).collect().await {
            Ok(_) => Ok(()),
            Err(error) if error.is::<LengthLimitError>() => Err(too_large()),
            Err(_) => {
                Err(Refusal { status: StatusCode::BAD_REQUEST, sentence: "The request ends too early.".to_owned() })
            }
        }
    }
}

fn text(status: StatusCode, sentence: &str) -> Response<Full<Bytes>> {
    reply(status, TEXT, format!("{sentence}\n"))
}

fn reply(status: StatusCode, kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body.into()));
    *answer.status_mut() = status;
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-store"), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    answer.headers_mut().extend(headers.map(|(name, value)| (name, HeaderValue::from_static(value))));
    answer
}
