//! TLS by rustls: what `sslmode` asks for.

use std::path::Path;
use std::sync::Arc;

use postrider_core::Fault;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::{Connect, Tls};

/// Makes connections as the configuration asks for them.
pub(crate) fn connector(connect: &Connect) -> Result<MakeRustlsConnect, Fault> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Fault::new("TLS", "it cannot be set up", "").caused_by(error))?;
    let config = match connect.tls {
        Tls::VerifyFull => builder.with_root_certificates(roots(connect.root_certificate.as_deref())?),
        // As libpq has it: encrypted, and nobody says by whom the certificate must be.
        Tls::Disable | Tls::Prefer | Tls::Require => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        }
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn roots(file: Option<&Path>) -> Result<RootCertStore, Fault> {
    let mut store = RootCertStore::empty();
    let certificates: Vec<CertificateDer<'static>> = match file {
        Some(path) => CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(|error| {
            Fault::new(
                path.display().to_string(),
                "sslrootcert cannot be read as PEM certificates",
                "Give the path of the authority's certificate in PEM form.",
            )
            .caused_by(error)
        })?,
        None => rustls_native_certs::load_native_certs().certs,
    };
    store.add_parsable_certificates(certificates);
    if store.is_empty() {
        return Err(Fault::new(
            "TLS",
            "no authority is known, so sslmode=verify-full can trust nobody",
            "Install the system's certificates, or name the authority with sslrootcert=/path/ca.pem.",
        ));
    }
    Ok(store)
}

/// Takes any certificate: `sslmode=require` encrypts and does not verify.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
