//! TLS by rustls: what `sslmode` asks for.

use mysql_async::SslOpts;
use postrider_core::Fault;
use rustls::RootCertStore;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::config::{Connect, Tls};

/// How a connection is encrypted; none where it is not to be.
pub(crate) fn encryption(connect: &Connect) -> Result<Option<SslOpts>, Fault> {
    // The driver takes the process's own; whoever has chosen one before keeps it.
    let _ = ring::default_provider().install_default();
    match connect.tls {
        Tls::Disable => Ok(None),
        // Encrypted, and nobody says by whom the certificate must be.
        Tls::Prefer | Tls::Require => Ok(Some(
            SslOpts::default()
                .with_danger_accept_invalid_certs(true)
                .with_danger_skip_domain_validation(true),
        )),
        Tls::VerifyFull => verified(connect).map(Some),
    }
}

fn verified(connect: &Connect) -> Result<SslOpts, Fault> {
    let mut store = RootCertStore::empty();
    // The driver refuses all of them for one that it does not understand: the system's may hold such.
    let trusted: Vec<Vec<u8>> = authorities(connect)?
        .into_iter()
        .filter(|certificate| store.add(certificate.clone()).is_ok())
        .map(|certificate| certificate.to_vec())
        .collect();
    if trusted.is_empty() {
        return Err(Fault::new(
            "TLS",
            "no authority is known, so sslmode=verify-full can trust nobody",
            "Install the system's certificates, or name the authority with sslrootcert=/path/ca.pem.",
        ));
    }
    let trusted = trusted.into_iter().map(Into::into).collect();
    Ok(SslOpts::default().with_root_certs(trusted).with_disable_built_in_roots(true))
}

fn authorities(connect: &Connect) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let Some(path) = &connect.root_certificate else {
        return Ok(rustls_native_certs::load_native_certs().certs);
    };
    CertificateDer::pem_file_iter(path).and_then(Iterator::collect).map_err(|error| {
        Fault::new(
            path.display().to_string(),
            "sslrootcert cannot be read as PEM certificates",
            "Give the path of the authority's certificate in PEM form.",
        )
        .caused_by(error)
    })
}
