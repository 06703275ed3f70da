use super::*;
use crate::route::Hold;

fn rank(id: i64) -> Rank {
    Rank { leads: Vec::new(), entry: id.to_string() }
}

fn key(id: &str) -> Key {
    Key::new("k", id.to_owned())
}

fn behind(id: i64) -> Pass {
    let mut pass = Pass { comparable: true, ..Pass::default() };
    pass.begin(0, None, &Holds::default());
    pass.reach(Some(rank(id)), &Page::default());
    pass.end_look();
    pass
}

/// F2: what was left is looked at again from its own first row on, and earlier ones stay left.
#[test]
fn a_key_that_is_free_again_is_looked_at_from_its_first_row_on() {
    let mut pass = behind(100);
    pass.leave(Some(&key("a")), &rank(3), Why::Dead);
    pass.leave(Some(&key("b")), &rank(50), Why::Held(Hold::Key));
    pass.leave(Some(&key("b")), &rank(60), Why::Next);
    let holds = Holds { keys: [key("b")].into(), ..Holds::default() };
    pass.begin(0, None, &holds);
    assert_eq!(*pass.place(), Place::Behind(rank(100)));
    assert!(pass.blocks(&key("b"), &rank(101)));
    pass.begin(0, None, &Holds::default());
    assert_eq!(*pass.place(), Place::At(rank(50)));
    assert!(pass.blocks(&key("a"), &rank(101)) && !pass.blocks(&key("b"), &rank(101)));
}

#[test]
fn what_waits_is_looked_at_when_it_is_due() {
    let mut pass = behind(100);
    pass.leave(None, &rank(7), Why::Due(2_000));
    pass.leave(None, &rank(9), Why::Due(1_000));
    assert_eq!(pass.due_in(), Some(Duration::from_millis(1)));
    pass.begin(999, None, &Holds::default());
    assert_eq!(*pass.place(), Place::Behind(rank(100)));
    pass.begin(1_000, None, &Holds::default());
    assert_eq!(*pass.place(), Place::At(rank(7)));
}

/// Whole looks that take long are made rarely, however much is found behind the mark or however idle it is.
#[test]
fn a_long_look_is_not_made_again_soon() {
    let mut pass = behind(100);
    pass.start_over();
    pass.clock(100_000);
    assert!(pass.ends(), "it was looked at everything");
    assert_eq!(*pass.place(), Place::Behind(rank(100)));
    pass.begin(200_000, None, &Holds::default());
    assert!(pass.ends(), "it is too early");
    for _ in 0..20 {
        pass.hand_out(Some(rank(100)), &Page::default());
    }
    pass.begin(1_000_000, None, &Holds::default());
    assert_eq!(*pass.place(), Place::Behind(rank(100)));
    pass.begin(5_000_000, None, &Holds::default());
    assert_eq!(*pass.place(), Place::Head);
}

fn timed(time: Option<&str>, id: i64) -> Rank {
    Rank { leads: vec![time.map(str::to_owned)], ..rank(id) }
}

/// F3, D2: a row that is stamped in the future, or has no time, is looked at, and what comes later is found before it.
#[test]
fn the_mark_does_not_pass_the_clock() {
    for ahead in [timed(Some("30"), 9), timed(None, 9)] {
        let mut pass = Pass { comparable: true, ..Pass::default() };
        let begin = |pass: &mut Pass, now: &str| pass.begin(0, Some(now.into()), &Holds::default());
        begin(&mut pass, "20");
        pass.saw(&timed(Some("7"), 3));
        let page = Page { steady: Some(timed(Some("7"), 3)), ..Page::default() };
        pass.leave(Some(&key("early")), &timed(Some("6"), 2), Why::Dead);
        pass.leave(Some(&key("late")), &ahead, Why::Dead);
        pass.hand_out(Some(ahead.clone()), &page);
        assert_eq!(*pass.place(), Place::Behind(ahead.clone()), "the claim under way goes on behind it");
        begin(&mut pass, "21");
        assert_eq!(*pass.place(), Place::Behind(timed(Some("7"), 3)));
        assert!(pass.blocks(&key("early"), &timed(Some("8"), 4)), "what was left there stays left");
        assert!(!pass.blocks(&key("late"), &ahead), "what is looked at again may go");
        pass.reach(Some(ahead.clone()), &Page::default());
        assert!(!pass.ends() && *pass.place() == Place::Head && pass.ends());
        assert_eq!(*pass.place(), Place::Behind(timed(Some("7"), 3)), "nor does the end of a look pass it");
    }
}

/// Nothing but rows ahead of the clock: they are looked at from where they begin.
#[test]
fn rows_ahead_alone_leave_no_mark() {
    let mut pass = Pass { comparable: true, ..Pass::default() };
    pass.begin(0, Some("20".into()), &Holds::default());
    pass.hand_out(Some(timed(Some("30"), 9)), &Page::default());
    pass.begin(0, Some("21".into()), &Holds::default());
    assert_eq!((pass.place(), pass.top()), (&Place::Head, None));
    pass.reach(Some(timed(Some("20"), 1)), &Page::default());
    pass.begin(0, Some("19".into()), &Holds::default());
    assert_eq!((pass.place(), pass.top()), (&Place::Head, None), "the clock was set back");
}

/// D2: where no row has a time they are in the order of their ids, and the mark moves among them until one has.
#[test]
fn rows_without_a_time_have_a_mark_until_one_has() {
    let mut pass = Pass { comparable: true, ..Pass::default() };
    let begin = |pass: &mut Pass| pass.begin(0, Some("20".into()), &Holds::default());
    begin(&mut pass);
    pass.saw(&timed(None, 9));
    pass.hand_out(Some(timed(None, 9)), &Page::default());
    begin(&mut pass);
    assert_eq!(*pass.place(), Place::Behind(timed(None, 9)));
    pass.saw(&timed(Some("7"), 10));
    begin(&mut pass);
    assert_eq!((pass.place(), pass.top()), (&Place::Head, None));
}

/// SRC-04: at the end of a look that went back, late rows are asked for up to where the next one goes on.
#[test]
fn the_end_passes_all_that_was_ever_looked_at() {
    let mut pass = behind(100);
    pass.go_back(rank(5));
    let page = |end| Page { last: Some(rank(7)), end, ..Page::default() };
    assert_eq!(pass.passes(&page(false)), Some(&rank(7)));
    assert_eq!(pass.passes(&page(true)), Some(&rank(100)));
    assert_eq!(pass.passes(&Page { end: true, ..Page::default() }), Some(&rank(100)));
    assert_eq!(behind(100).passes(&Page::default()), Some(&rank(100)));
}
