//! The tests of the tests: each way to be wrong is noticed.

use super::{Road, Shop};
use crate::world::World;

fn proved(change: impl FnOnce(&mut Vec<String>)) {
    let world = Road::Cursor.world("2s", 4);
    let mut shop = Shop::new(&world, Road::Cursor);
    shop.commit(9);
    shop.roll_back(1);
    world.run(&["run", "--until-empty"]).ok();
    assert_eq!(shop.prove(), 0);
    let mut lines: Vec<String> = world.read("events.jsonl").lines().map(str::to_owned).collect();
    change(&mut lines);
    rewrite(&world, &lines);
    shop.prove();
}

fn rewrite(world: &World, lines: &[String]) {
    world.write("events.jsonl", &(lines.join("\n") + "\n"));
}

#[test]
#[should_panic(expected = "every committed event has arrived")]
fn a_lost_event() {
    proved(|lines| _ = lines.pop());
}

#[test]
#[should_panic(expected = "is out of order")]
fn an_overtaken_event() {
    proved(|lines| lines.swap(0, 3));
}

#[test]
#[should_panic(expected = "a duplicate has the same bytes")]
fn a_duplicate_with_other_bytes() {
    proved(|lines| lines.push(lines[0].replace("/shop", "/other")));
}

#[test]
#[should_panic(expected = "was rolled back, and published")]
fn a_ghost() {
    proved(|lines| lines.push(lines[0].replace("event-0", "event-9")));
}
