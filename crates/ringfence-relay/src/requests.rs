//! Requests, judged one by one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderName,
    IF_RANGE, RANGE, TRANSFER_ENCODING, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use ringfence_model::{Host, HostRule, visible_within};

use crate::carry::Connection;
use crate::inspect::{Allowed, Secret};
use crate::proxy::split_port;
use crate::scrub::{Scrub, Scrubbed};

pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;
pub(crate) type Body = UnsyncBoxBody<Bytes, Failure>;

/// How much of a name or path that the program chose is shown.
const LONGEST_SHOWN: usize = 100;

/// Headers by which servers take a request for one with another method or path.
const OTHERWISE: [&str; 5] =
    ["x-http-method-override", "x-http-method", "x-method-override", "x-original-url", "x-rewrite-url"];

/// What holds for all requests of a connection.
pub(crate) struct Requests {
    pub(crate) connection: Arc<Connection>,
    /// Whether they come inside of TLS.
    pub(crate) is_tls: bool,
    scrub: Option<Scrub>,
}

struct Refusal {
    named: Option<String>,
    rule: Option<Box<HostRule>>,
    why: String,
}

impl Requests {
    pub(crate) fn new(connection: &Arc<Connection>, is_tls: bool) -> Arc<Self> {
        let connection = Arc::clone(connection);
        let inspects = connection.inspect.as_deref().unwrap_or_default();
        let secrets: Vec<_> = inspects.iter().filter_map(|inspect| inspect.secret.as_ref()).collect();
        let scrub = (is_tls && !secrets.is_empty()).then(|| Scrub::new(&secrets));
        Arc::new(Self { connection, is_tls, scrub })
    }

    /// What allows the request; an error when it is inspected and nothing does.
    fn inspect<B>(&self, request: &Request<B>) -> Result<Option<&Allowed>, ()> {
        let Some(inspects) = &self.connection.inspect else { return Ok(None) };
        let (method, path) = (request.method().as_str(), request.uri().path());
        let allowing = inspects.iter().find(|inspect| inspect.allows(method, path));
        allowing.map(Some).ok_or(())
    }

    /// A secret goes nowhere but into TLS.
    fn secret<B>(&self, request: &Request<B>) -> Option<&Secret> {
        let inspect = self.inspect(request).ok().flatten();
        inspect.and_then(|inspect| inspect.secret.as_ref()).filter(|_| self.is_tls)
    }

    /// The answer to a request that may not be made.
    pub(crate) fn refuse<B>(&self, request: &Request<B>) -> Option<Response<Body>> {
        let refusal = self.judge(request).err()?;
        let text = format!("ringfence: {}\n", refusal.why);
        self.connection.refuse_by(refusal.rule.map(|rule| *rule), refusal.named.as_deref(), refusal.why);
        let mut response = answer(StatusCode::FORBIDDEN, text);
        if request.version() != Version::HTTP_2 {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Some(response)
    }

    fn judge<B>(&self, request: &Request<B>) -> Result<(), Refusal> {
        let to = &self.connection.wanted.host;
        let refuse = |why: String| Err(Refusal { named: None, rule: None, why });
        let is_http2 = request.version() == Version::HTTP_2;
        if request.method() == Method::CONNECT {
            return refuse(format!("a request to {to} for a tunnel to somewhere else"));
        }
        let own = if self.is_tls { "https" } else { "http" };
        if request.uri().scheme_str().is_some_and(|scheme| scheme != own) {
            return refuse(format!("a request to {to} that names another scheme than {own}"));
        }
        let authority = request.uri().authority();
        if let Some(authority) = authority {
            self.judge_name(authority.as_str())?;
        }
        let mut names = request.headers().get_all(HOST).iter();
        match (names.next(), names.next()) {
            (None, _) if is_http2 && authority.is_some() => {}
            (None, _) => return refuse(format!("a request to {to} that names no host")),
            (Some(_), Some(_)) => return refuse(format!("a request to {to} that names two hosts")),
            (Some(name), None) => self.judge_name(&String::from_utf8_lossy(name.as_bytes()))?,
        }
        let mut encodings = request.headers().get_all(TRANSFER_ENCODING).iter();
        match (encodings.next(), encodings.next()) {
            (None, _) => {}
            (Some(_), _) if request.headers().contains_key(CONTENT_LENGTH) => {
                return refuse(format!("a request to {to} that says its length twice"));
            }
            (Some(encoding), None) if encoding.as_bytes().eq_ignore_ascii_case(b"chunked") => {}
            (Some(_), _) => return refuse(format!("a request to {to} in an unusual encoding")),
        }
        let otherwise = OTHERWISE.into_iter().find(|name| request.headers().contains_key(*name));
        if let Some(name) = otherwise.filter(|_| self.connection.inspect.is_some()) {
            return refuse(format!("a request to {to} with {name}, by which it would be another one"));
        }
        if self.inspect(request).is_err() {
            let allowed = self.connection.inspect.as_deref().unwrap_or_default();
            let what =
                allowed.iter().filter_map(|allowed| Some((&allowed.rule, allowed.rule.inspect.as_ref()?)));
            let what: Vec<String> = what.map(|(rule, inspect)| format!("{inspect} by `{rule}`")).collect();
            let asked = self.asked(request);
            return Err(Refusal {
                why: format!("{asked} is not among the requests that are allowed: {}", what.join("; ")),
                rule: allowed.first().map(|allowed| Box::new(allowed.rule.clone())),
                named: Some(asked),
            });
        }
        Ok(())
    }

    /// `GET https://host/path`, as it is shown to a person: what follows the path may be anything.
    fn asked<B>(&self, request: &Request<B>) -> String {
        let (host, port) = (&self.connection.wanted.host, self.connection.wanted.port);
        let (scheme, usual) = if self.is_tls { ("https", 443) } else { ("http", 80) };
        let at = match host {
            Host::Name(name) if port == usual => name.clone(),
            host => host.with_port(port),
        };
        let path = visible_within(request.uri().path(), LONGEST_SHOWN);
        format!("{} {scheme}://{at}{path}", visible_within(request.method().as_str(), LONGEST_SHOWN))
    }

    /// Whether that is who may be reached here; the port may be left out.
    fn judge_name(&self, named: &str) -> Result<(), Refusal> {
        let is_allowed = split_port(named).is_some_and(|(host, port)| {
            self.connection.is_allowed(&host) && port.is_none_or(|port| port == self.connection.wanted.port)
        });
        if is_allowed {
            return Ok(());
        }
        let shown = visible_within(named, LONGEST_SHOWN);
        let why = format!("a request to {} that is meant for {shown}", self.connection.wanted.host);
        Err(Refusal { named: Some(named.to_owned()), rule: None, why })
    }

    /// What a request that may be made needs besides.
    pub(crate) fn complete<B>(&self, request: &mut Request<B>) -> Result<(), Failure> {
        let is_inspected = self.connection.inspect.is_some();
        leave_out_changes(
            request.headers_mut(),
            if is_inspected { may_be_inspected } else { may_be_carried },
        );
        if self.scrub.is_some() {
            // What is compressed cannot be searched, nor what comes in parts that somebody else chose.
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            for part in [RANGE, IF_RANGE] {
                request.headers_mut().remove(part);
            }
        }
        let Some(secret) = self.secret(request) else { return Ok(()) };
        let headers = request.headers_mut();
        let name = HeaderName::from_bytes(secret.credential.header.as_bytes())?;
        let text = secret.in_place_of(headers.get(&name).and_then(|value| value.to_str().ok()));
        // The error would show the secret.
        let mut value = HeaderValue::from_str(&text).map_err(|_| "the credential is no value of a header")?;
        value.set_sensitive(true);
        headers.insert(name, value);
        Ok(())
    }

    /// The host's answer as the program may see it.
    pub(crate) fn pass(&self, mut response: Response<Incoming>, method: &Method) -> Response<Body> {
        let Some(scrub) = &self.scrub else {
            return response.map(|body| body.map_err(Failure::from).boxed_unsync());
        };
        let is_plain = |value: &HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
        if !response.headers().get_all(CONTENT_ENCODING).iter().all(is_plain) {
            let why = format!(
                "{} compressed its answer to a request with a credential, which cannot be searched for it",
                self.connection.wanted.host
            );
            let text = format!("ringfence: {why}\n");
            self.connection.refuse(None, why);
            return answer(StatusCode::BAD_GATEWAY, text);
        }
        scrub.headers(response.headers_mut());
        // Words beside the status that are the host's own.
        response.extensions_mut().remove::<hyper::ext::ReasonPhrase>();
        if !scrub.keeps_lengths() && method != Method::HEAD {
            response.headers_mut().remove(CONTENT_LENGTH);
        }
        response.map(|body| Scrubbed::new(body, scrub.clone()).map_err(Failure::from).boxed_unsync())
    }
}

/// Takes what comes with a request that is refused, within limits: whoever is cut off while it speaks may not listen to
/// the answer. One that waits to be told whether it shall speak is not.
pub(crate) async fn hear_out(request: Request<Incoming>) {
    const MOST: usize = 1024 * 1024;
    const LONGEST: Duration = Duration::from_secs(2);
    if request.headers().contains_key(EXPECT) {
        return;
    }
    let mut body = request.into_body();
    let mut left = MOST;
    let all = async {
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(length) {
                Some(rest) => left = rest,
                None => break,
            }
        }
    };
    // What is late is not waited for.
    let _ = tokio::time::timeout(LONGEST, all).await;
}

fn answer(status: StatusCode, text: String) -> Response<Body> {
    let body = Full::from(text).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

/// Nobody changes to a protocol in which requests would not be looked at. Who asks for it does without.
fn leave_out_changes(headers: &mut HeaderMap, may_be: fn(&str) -> bool) {
    let is_fine = |value: &HeaderValue| {
        let value = value.to_str().unwrap_or("tls").to_ascii_lowercase();
        value.split(',').all(|one| may_be(one.trim()))
    };
    if !headers.get_all(UPGRADE).iter().all(is_fine) {
        headers.remove(UPGRADE);
        headers.remove(CONNECTION);
        headers.remove(HeaderName::from_static("http2-settings"));
    }
}

/// Not another HTTP, and not TLS, whose names would not be looked at.
fn may_be_carried(protocol: &str) -> bool {
    !["h2", "h3", "http", "tls"].iter().any(|other| protocol.starts_with(other))
}

fn may_be_inspected(protocol: &str) -> bool {
    protocol == "websocket"
}
