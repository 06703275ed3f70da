//! Redis, from Debian's package.

use super::Started;
use super::env::Env;
use super::fetch;
use super::launch::Place;

pub(crate) const URL: &str = "POSTRIDER_TEST_REDIS_URL";

pub(crate) fn start(place: &Place) -> Result<Started, String> {
    fetch::debian("redis-server", &["redis-server"])?;
    place.clear()?;
    let command = |port: u16| {
        let mut command = place.server("redis-server", "KILL");
        command.args([
            "--port",
            &port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "yes",
        ]);
        command.arg("--dir").arg(&place.folder);
        Ok(command)
    };
    let launched = place.launch_one("Ready to accept connections", command, |_| true)?;
    let mut env = Env::default();
    env.set(URL, format!("redis://127.0.0.1:{}", launched.ports[0]));
    Ok(Started::new(launched, "TERM", env))
}
