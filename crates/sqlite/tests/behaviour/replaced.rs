//! The file is deleted or replaced under a running relay.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{Relay, STATUS_TABLE, ask, envelope, native, status_layout};
use postrider_core::Layout;
use postrider_core::Settlement;
use postrider_core::layout::Order;
use postrider_core::source::{Claim, Claimed, Source, SourceError};
use postrider_core::store::Store;
use postrider_sqlite::{Config, Outbox, Start, migrate, open_store};
use rusqlite::Connection;

fn create(path: &Path, layout: &Layout) -> Config {
    let config = Config::new(path, layout.clone(), "relay");
    Connection::open(path).unwrap().execute_batch(STATUS_TABLE).unwrap();
    migrate(&config).unwrap();
    config
}

fn append(config: &Config, numbers: impl IntoIterator<Item = i32>) {
    let (connection, outbox) =
        (Connection::open(&config.path).unwrap(), Outbox::new(&config.layout).unwrap());
    for number in numbers {
        outbox.append(&connection, &envelope(number)).unwrap();
    }
}

fn remove(path: &Path) {
    std::fs::remove_file(path).unwrap();
    remove_beside(path);
}

/// A log that is left would be taken for the new file's.
fn remove_beside(path: &Path) {
    for beside in ["-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(beside);
        let _ = std::fs::remove_file(name);
    }
}

async fn unreachable(relay: &Relay) {
    match relay.source.claim(&ask()).await {
        Err(SourceError::Unreachable(fault)) => {
            assert!(fault.problem.contains("no such database file"), "{fault}")
        }
        other => panic!("{other:?}"),
    }
}

/// F5: a file that is deleted is named within a second, and the one that is created in its place is read.
#[tokio::test]
async fn a_deleted_file_is_named_and_its_successor_is_read() {
    for layout in [native(), status_layout(Order::Key)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let config = create(&path, &layout);
        append(&config, 1..=3);
        let relay = Relay::open(&config);
        let store = open_store(&config, Arc::new(relay.clock.clone())).unwrap();
        assert_eq!(relay.drain().await.len(), 3);
        assert_eq!(store.depth().await.unwrap().published, 3);
        remove(&path);
        relay.clock.advance(Duration::from_secs(2));
        unreachable(&relay).await;
        unreachable(&relay).await;
        assert!(matches!(store.depth().await, Err(SourceError::Unreachable(_))));
        assert!(!path.exists());
        create(&path, &layout);
        append(&config, 4..=5);
        assert_eq!(relay.drain().await, ["event-4", "event-5"]);
        assert_eq!(store.depth().await.unwrap().published, 2);
    }
}

/// A backup that is moved over the file is read from its own position on; what was claimed of the old file is void, even
/// where the new one counts its claims and fences alike.
#[tokio::test]
async fn a_backup_that_takes_its_place_is_read() {
    for layout in [native(), status_layout(Order::Key)] {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("shop.db"), folder.path().join("backup.db"));
        let (config, backup) = (create(&path, &layout), create(&other, &layout));
        append(&config, 1..=3);
        append(&backup, 7..=8);
        let relay = Relay::open(&config);
        let Claimed::Batch(Claim { mut hold, .. }) = relay.source.claim(&ask()).await.unwrap() else {
            panic!("nothing")
        };
        std::fs::rename(&other, &path).unwrap();
        remove_beside(&path);
        relay.clock.advance(Duration::from_secs(2));
        let Claimed::Batch(Claim { hold: new, entries, .. }) = relay.source.claim(&ask()).await.unwrap()
        else {
            panic!("nothing")
        };
        assert_eq!(entries[0].envelope.id, "event-7");
        let settled = relay.source.settle(&mut hold, &[(0, Settlement::Published)]).await;
        assert!(matches!(settled, Err(SourceError::Fenced)), "{settled:?}");
        relay.source.release(hold).await.unwrap();
        relay.source.release(new).await.unwrap();
        assert_eq!(relay.drain().await, ["event-7", "event-8"]);
    }
}

/// Ids that are behind the position of the file that took its place stop the relay with the remedy.
#[tokio::test]
async fn a_successor_whose_ids_went_backwards_stops_the_relay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let config = create(&path, &native());
    let relay = Relay::open(&config);
    assert!(relay.drain().await.is_empty());
    remove(&path);
    create(&path, &native());
    Connection::open(&path).unwrap().execute("update postrider_position set position = 9", []).unwrap();
    relay.clock.advance(Duration::from_secs(2));
    match relay.source.claim(&ask()).await {
        Err(SourceError::Broken(fault)) => assert!(fault.problem.contains("backwards"), "{fault}"),
        other => panic!("{other:?}"),
    }
    append(&config, 1..=1);
    let relay = Relay::open(&config.start(Start::Beginning));
    relay.clock.advance(Duration::from_secs(60));
    assert_eq!(relay.drain().await, ["event-1"]);
}
