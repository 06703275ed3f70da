//! What a domain is over in the end.

/// A part of a statement over the columns `a` of `pg_attribute`: `t` is the column's type or, of a domain, the one that it is over in the
/// end, through any number of domains; `b` has that type's modifier, whether any of the domains forbids NULL, the domain's
/// own name and its default (which a domain over a domain has copied), and all domains on the way.
macro_rules! base_type {
    () => {
        "cross join lateral ( \
         with recursive chain(oid, next, next_mod, typmod, not_null, depth) as ( \
         select y.oid, y.typbasetype, y.typtypmod, a.atttypmod, y.typnotnull, 0 from pg_type as y where y.oid = a.atttypid \
         union all select y.oid, y.typbasetype, y.typtypmod, c.next_mod, y.typnotnull, c.depth + 1 \
         from chain as c join pg_type as y on y.oid = c.next) \
         select (array_agg(c.oid order by c.depth desc))[1] as oid, (array_agg(c.typmod order by c.depth desc))[1] as typmod, \
         bool_or(c.not_null) as not_null, case when count(*) > 1 then format_type(a.atttypid, null) end as domain, \
         (select y.typdefault from pg_type as y where y.oid = a.atttypid and y.typtype = 'd') as domain_default, \
         array_agg(c.oid) filter (where c.next <> 0) as domains \
         from chain as c) as b \
         join pg_type as t on t.oid = b.oid "
    };
}

pub(crate) use base_type;
