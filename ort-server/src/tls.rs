//! TLS of connections, by rustls with the cryptography of graviola: Rust and assembly, without a C compiler.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::{ServerConfig, server};
use tokio_rustls::TlsAcceptor;

use crate::options::TlsFiles;

/// Files that TLS cannot use.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read, or is not PEM.
    #[error("{}: {source}", path.display())]
    Pem {
        /// The file.
        path: PathBuf,
        /// The error.
        source: pem::Error,
    },
    /// The certificate and the key are not usable together.
    #[error("{}: {source}", path.display())]
    Certificate {
        /// The file of the certificate.
        path: PathBuf,
        /// The error.
        source: rustls::Error,
    },
}

/// The TLS of a port whose clients choose among `protocols` (ALPN).
pub(crate) fn acceptor(files: &TlsFiles, protocols: &[&[u8]]) -> Result<TlsAcceptor, TlsError> {
    let in_file = |path: &Path| {
        let path = path.to_owned();
        move |source| TlsError::Pem { path, source }
    };
    let path = &files.certificates;
    let certificates = CertificateDer::pem_file_iter(path).map_err(in_file(path))?;
    let certificates = certificates.collect::<Result<Vec<_>, _>>().map_err(in_file(path))?;
    let key = PrivateKeyDer::from_pem_file(&files.key).map_err(in_file(&files.key))?;
    let invalid = |source| TlsError::Certificate { path: path.clone(), source };
    let provider = Arc::new(rustls_graviola::default_provider());
    let builder: rustls::ConfigBuilder<ServerConfig, server::WantsServerCert> =
        ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(invalid)?
            .with_no_client_auth();
    let mut config = builder.with_single_cert(certificates, key).map_err(invalid)?;
    config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}
