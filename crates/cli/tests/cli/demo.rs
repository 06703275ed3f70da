//! The demo, in a pipe.

use crate::world::World;

#[test]
fn the_demo_proves_itself_in_a_pipe() {
    let world = World::new();
    let shown = world.run(&["demo", "--seconds", "2", "--rate", "200"]).ok();
    for part in [
        "committed",
        "rolled back",
        "depth",
        "latency",
        "exactly once",
        "none of them arrived",
        "in order",
        "postrider init",
    ] {
        assert!(shown.contains(part), "\"{part}\" is not in: {shown}");
    }
    assert!(!shown.contains('\x1b'), "a pipe gets no control codes: {shown}");
    assert!(!shown.contains("FAILED"), "{shown}");
    assert_eq!(std::fs::read_dir(world.directory.path()).unwrap().count(), 0, "it leaves nothing behind");
}

#[test]
fn the_demo_keeps_its_files_when_asked() {
    let world = World::new();
    world.run(&["demo", "--seconds", "1", "--rate", "100", "--keep", "here"]).ok();
    let events = world.read("here/events.jsonl");
    assert!(events.lines().count() > 10, "{events}");
    let created = events.lines().find(|line| line.contains("shop.order.created.v1")).unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(created).unwrap()["data"]["total_cents"].is_u64());
    world.run(&["demo", "--seconds", "1", "--keep", "here"]).failed(2, &["here"]);
}
