//! Certificates for servers that speak TLS.

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};

/// An authority, and what it says of a server; as PEM.
#[derive(Clone)]
pub struct Certificates {
    /// Whom clients trust.
    pub authority: String,
    /// What the server shows.
    pub server: String,
    /// The server's secret.
    pub key: String,
}

impl Certificates {
    /// A new authority that vouches for a server by this name or address.
    #[must_use]
    pub fn of(name: &str) -> Self {
        let [one] = Self::of_each([name]);
        one
    }

    /// The same authority for servers by each of these.
    #[must_use]
    pub fn of_each<const N: usize>(names: [&str; N]) -> [Self; N] {
        let key = || KeyPair::generate().expect("a key can be made");
        let mut params = CertificateParams::new(Vec::new()).expect("no name is a name");
        // Under names of their own: OpenSSL takes a certificate whose issuer has its own name for one that signed itself.
        params.distinguished_name.push(DnType::CommonName, "an authority of tests");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, key()).expect("an authority signs itself");
        names.map(|name| {
            let server_key = key();
            let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name of a server");
            params.distinguished_name.push(DnType::CommonName, name);
            let server = params.signed_by(&server_key, &authority).expect("an authority signs");
            Self { authority: authority.pem(), server: server.pem(), key: server_key.serialize_pem() }
        })
    }
}

impl std::fmt::Debug for Certificates {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificates")
    }
}
