//! TLS that ends at the relay: an authority of its own towards the program, the host's roots towards the host.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};
use ringfence_model::{Host, LockExt as _};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

/// Longer than a sandbox lives, shorter than strict clients allow.
const VALID: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// For clocks that are behind.
const BEFORE: Duration = Duration::from_secs(24 * 60 * 60);
const MOST_KEPT: usize = 1024;

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Both sides of TLS, made when they are first needed.
pub(crate) struct Tls {
    authority: Authority,
    /// Without names of protocols.
    client: OnceLock<Result<ClientConfig, String>>,
    roots: Vec<PathBuf>,
}

/// Who vouches for the hosts that are inspected, to the programs of one sandbox. Clones are the same one. It is made
/// when it is first needed, and its key is in memory only.
#[derive(Clone, Default)]
pub struct Authority(Arc<OnceLock<Result<Made, String>>>);

struct Made {
    issuer: CertifiedIssuer<'static, KeyPair>,
    key: KeyPair,
    provider: Arc<CryptoProvider>,
    kept: Mutex<HashMap<Host, Arc<CertifiedKey>>>,
}

impl Tls {
    pub(crate) fn new(authority: Authority, roots: Vec<PathBuf>) -> Self {
        Self { authority, client: OnceLock::new(), roots }
    }

    /// Towards the program, as that host, speaking only that protocol.
    pub(crate) fn server(&self, host: &Host, protocol: Option<&[u8]>) -> Result<ServerConfig, Failure> {
        let authority = self.authority.made()?;
        let key = authority.key_for(host)?;
        let mut config = ServerConfig::builder_with_provider(Arc::clone(&authority.provider))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(key)));
        config.alpn_protocols = protocol.map(<[u8]>::to_vec).into_iter().collect();
        Ok(config)
    }

    /// Towards the host, offering these protocols.
    pub(crate) fn client(&self, protocols: Vec<Vec<u8>>) -> Result<ClientConfig, Failure> {
        let made = self.client.get_or_init(|| client(&self.roots).map_err(|error| error.to_string()));
        let mut config = made.as_ref().map_err(Clone::clone)?.clone();
        config.alpn_protocols = protocols;
        Ok(config)
    }
}

fn client(roots: &[PathBuf]) -> Result<ClientConfig, Failure> {
    let text = roots.iter().find_map(|file| std::fs::read(file).ok());
    let text = text.ok_or("no file of trusted certificates was found on this machine")?;
    let mut store = RootCertStore::empty();
    let (added, _) = store.add_parsable_certificates(CertificateDer::pem_slice_iter(&text).flatten());
    if added == 0 {
        return Err("the file of trusted certificates has none".into());
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(store)
        .with_no_client_auth())
}

impl Authority {
    /// What programs must trust.
    pub fn certificate_pem(&self) -> Result<String, String> {
        self.made().map(|made| made.issuer.pem())
    }

    fn made(&self) -> Result<&Made, String> {
        let made = self.0.get_or_init(|| Made::new().map_err(|error| error.to_string()));
        made.as_ref().map_err(Clone::clone)
    }
}

impl std::fmt::Debug for Authority {
    /// Without the key.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Made {
    fn new() -> Result<Self, rcgen::Error> {
        let mut params = valid_now(CertificateParams::default());
        params.distinguished_name.push(DnType::CommonName, "Ringfence, for one sandbox");
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        Ok(Self {
            issuer: CertifiedIssuer::self_signed(params, KeyPair::generate()?)?,
            key: KeyPair::generate()?,
            provider: Arc::new(rustls::crypto::ring::default_provider()),
            kept: Mutex::default(),
        })
    }

    fn key_for(&self, host: &Host) -> Result<Arc<CertifiedKey>, Failure> {
        let mut kept = self.kept.locked();
        if let Some(key) = kept.get(host) {
            return Ok(Arc::clone(key));
        }
        let mut params = valid_now(CertificateParams::new(vec![host.to_string()])?);
        params.distinguished_name.push(DnType::CommonName, "Ringfence");
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&self.key, &self.issuer)?;
        let chain = vec![certificate.der().clone(), self.issuer.der().clone()];
        let key = PrivateKeyDer::Pkcs8(self.key.serialize_der().into());
        let key = Arc::new(CertifiedKey::from_der(chain, key, &self.provider)?);
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(host.clone(), Arc::clone(&key));
        Ok(key)
    }
}

fn valid_now(mut params: CertificateParams) -> CertificateParams {
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = (SystemTime::now() - BEFORE).into();
    params.not_after = (SystemTime::now() + VALID).into();
    params
}

pub(crate) fn server_name(host: &Host) -> Result<ServerName<'static>, Failure> {
    Ok(match host {
        Host::Address(address) => ServerName::IpAddress((*address).into()),
        Host::Name(name) => ServerName::try_from(name.clone())?,
    })
}
