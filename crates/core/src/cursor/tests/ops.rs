//! What may happen to a cursor.

use proptest::prelude::*;

use super::{KEYS, KINDS};

#[derive(Clone, Debug)]
pub(super) enum Op {
    /// An append: key, kind, and whether its transaction stays open.
    Append(u8, u8, bool),
    Commit(usize),
    RollBack(usize),
    Claim(Claim),
    /// Settles entries of a claim: which claim, which of its entries (bits), how.
    Settle(usize, u16, u8),
    Release(usize),
    /// Whether writes get through.
    Database(bool),
    Crash,
    Pass(u8),
    Bury(usize),
    Revive(usize),
}

#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) limit: usize,
    /// Rows looked at before the byte limit stops the scan.
    pub(super) stop: usize,
    pub(super) held_keys: u8,
    /// Per kind: 0 open, 1 closed, else that many may pass less one.
    pub(super) routes: [u8; KINDS as usize],
    pub(super) all_on_trial: bool,
    pub(super) check: bool,
}

pub(super) fn ops(one_kind_per_key: bool) -> impl Strategy<Value = Vec<Op>> {
    let routes = prop_oneof![3 => Just([0; 3]), 1 => proptest::array::uniform3(0..4_u8)];
    let keys = prop_oneof![3 => Just(0), 1 => any::<u8>()];
    let claim = (
        1..8_usize,
        prop_oneof![3 => Just(usize::MAX), 1 => 1..6_usize],
        keys,
        routes,
        any::<(bool, bool)>(),
    )
        .prop_map(|(limit, stop, held_keys, routes, (all_on_trial, check))| Claim {
            limit,
            stop,
            held_keys,
            routes,
            all_on_trial,
            check,
        });
    let append = (0..KEYS, 0..KINDS, proptest::bool::weighted(0.3)).prop_map(move |(key, kind, open)| {
        Op::Append(key, if one_kind_per_key { key % KINDS } else { kind }, open)
    });
    let op = prop_oneof![
        8 => append,
        2 => (0..4_usize).prop_map(Op::Commit),
        1 => (0..4_usize).prop_map(Op::RollBack),
        6 => claim.prop_map(Op::Claim),
        6 => (0..4_usize, any::<u16>(), 0..8_u8).prop_map(|(claim, which, how)| Op::Settle(claim, which, how)),
        1 => (0..4_usize).prop_map(Op::Release),
        1 => any::<bool>().prop_map(Op::Database),
        1 => Just(Op::Crash),
        2 => prop_oneof![4 => 0..10_u8, 1 => 60..200_u8].prop_map(Op::Pass),
        1 => (0..30_usize).prop_map(Op::Bury),
        1 => (0..30_usize).prop_map(Op::Revive),
    ];
    proptest::collection::vec(op, 1..120)
}
