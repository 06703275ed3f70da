//! What a private Kafka has beyond the usual.

use crate::Certificates;

/// The listener that every broker has: no login, no TLS.
pub(crate) const PLAIN: &str = "plain";

/// What a private Kafka has beyond the usual.
#[derive(Clone, Debug)]
pub struct KafkaOptions {
    /// How many brokers, numbered from 1.
    pub brokers: usize,
    /// How many of them vote on the cluster's own state. With one, the first, all others can be dead and the cluster
    /// still says so; with three, a majority has to live.
    pub controllers: usize,
    /// Lines of `server.properties`, such as `auto.create.topics.enable=false`.
    pub settings: Vec<String>,
    /// Files in its folder by name.
    pub files: Vec<(String, Vec<u8>)>,
    /// Listeners beside the one named `plain`.
    pub listeners: Vec<KafkaListener>,
    /// Names and passwords, for listeners with a login: by PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.
    pub users: Vec<(String, String)>,
    /// Whether users need rights. Who comes by `plain` or from inside has them all.
    pub guarded: bool,
}

impl Default for KafkaOptions {
    fn default() -> Self {
        Self {
            brokers: 1,
            controllers: 1,
            settings: Vec::new(),
            files: Vec::new(),
            listeners: Vec::new(),
            users: Vec::new(),
            guarded: false,
        }
    }
}

/// Where clients come in another way.
#[derive(Clone, Debug)]
pub struct KafkaListener {
    /// In small letters.
    pub name: String,
    /// Whether a login is asked for.
    pub login: bool,
    /// With these it speaks TLS.
    pub certificates: Option<Certificates>,
}

impl KafkaListener {
    fn protocol(&self) -> &'static str {
        match (self.login, self.certificates.is_some()) {
            (false, false) => "PLAINTEXT",
            (false, true) => "SSL",
            (true, false) => "SASL_PLAINTEXT",
            (true, true) => "SASL_SSL",
        }
    }

    /// The file with the key and the certificate.
    fn file(&self) -> String {
        format!("{}.pem", self.name)
    }
}

impl KafkaOptions {
    /// Name and protocol of all listeners for clients.
    pub(crate) fn all_listeners(&self) -> Vec<(String, &'static str)> {
        let others = self.listeners.iter().map(|listener| (listener.name.clone(), listener.protocol()));
        [(PLAIN.to_owned(), "PLAINTEXT")].into_iter().chain(others).collect()
    }

    /// Further lines of the properties; later ones count more.
    pub(crate) fn lines(&self) -> Vec<String> {
        // A dead broker is noticed soon, and a living one on a busy machine is not taken for dead.
        let mut lines: Vec<String> =
            vec!["broker.session.timeout.ms=4000".to_owned(), "broker.heartbeat.interval.ms=500".to_owned()];
        if self.guarded {
            lines.push(
                "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer".to_owned(),
            );
            lines.push("super.users=User:ANONYMOUS".to_owned());
        }
        for listener in &self.listeners {
            let of = |key: &str, value: &str| format!("listener.name.{}.{key}={value}", listener.name);
            if listener.certificates.is_some() {
                lines.push(of("ssl.keystore.type", "PEM"));
                lines.push(of("ssl.keystore.location", &listener.file()));
            }
            if listener.login {
                let module = "org.apache.kafka.common.security";
                let scram = format!("{module}.scram.ScramLoginModule required;");
                let users = self.users.iter().map(|(name, password)| format!(" user_{name}=\"{password}\""));
                let plain = format!("{module}.plain.PlainLoginModule required{};", users.collect::<String>());
                lines.push(of("sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"));
                lines.push(of("plain.sasl.jaas.config", &plain));
                lines.push(of("scram-sha-256.sasl.jaas.config", &scram));
                lines.push(of("scram-sha-512.sasl.jaas.config", &scram));
            }
        }
        lines.extend(self.settings.iter().cloned());
        lines
    }

    /// The files that the lines name, and those that were asked for.
    pub(crate) fn all_files(&self) -> Vec<(String, Vec<u8>)> {
        let shown = self.listeners.iter().filter_map(|listener| {
            let certificates = listener.certificates.as_ref()?;
            Some((listener.file(), format!("{}{}", certificates.key, certificates.server).into_bytes()))
        });
        shown.chain(self.files.iter().cloned()).collect()
    }

    /// Words for whoever formats the storage: users by SCRAM are part of it.
    pub(crate) fn storage(&self) -> Vec<String> {
        let mut words = Vec::new();
        for (name, password) in &self.users {
            for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
                words.push("--add-scram".to_owned());
                words.push(format!("{mechanism}=[name={name},password={password}]"));
            }
        }
        words
    }
}
