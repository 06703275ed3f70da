//! TLS by rustls: what `sslmode` asks for.

use mysql_async::SslOpts;
use postrider_core::Fault;
use rustls::crypto::ring;

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
    let trusted = match &connect.root_certificate {
        Some(path) => vec![path.clone().into()],
        None => {
            let found = rustls_native_certs::load_native_certs().certs;
            found.into_iter().map(|certificate| certificate.to_vec().into()).collect()
        }
    };
    if trusted.is_empty() {
        return Err(Fault::new(
            "TLS",
            "no authority is known, so sslmode=verify-full can trust nobody",
            "Install the system's certificates, or name the authority with sslrootcert=/path/ca.pem.",
        ));
    }
    Ok(SslOpts::default().with_root_certs(trusted).with_disable_built_in_roots(true))
}
