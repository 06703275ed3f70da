//! Rows as a statement gave them: copied once, so that the thread that owns the connection only reads. What they mean
//! is found out later, by whoever asked for them.

use bytes::Bytes;
use rusqlite::Row;
use rusqlite::types::ValueRef;

use crate::pool::{BUFFER_BYTES, Pool};
use crate::sql::Field;

const COLUMNS: usize = Field::TooLarge as usize + 1;

/// Without a pool, a buffer that is full is followed by one as large as all before it together, but of this size at least.
const CHUNK_BYTES_MIN: usize = 4 * 1024;
/// A longer list of rows, of very small ones, is not kept for its next use.
const ROWS_KEPT_MAX: usize = 256;

/// Rows that are being read.
#[derive(Debug, Default)]
pub(crate) struct RawRows {
    full: Vec<Chunk<Vec<u8>>>,
    last: Chunk<Vec<u8>>,
    rows: usize,
    bytes: usize,
    row_bytes_max: usize,
    pools: Option<Pools>,
}

/// Where the memory of rows comes from and goes back to.
#[derive(Clone, Debug)]
pub(crate) struct Pools {
    buffers: Pool<u8>,
    rows: Pool<Cells>,
}

impl Pools {
    pub(crate) fn new() -> Self {
        Self { buffers: Pool::new(), rows: Pool::new() }
    }
}

/// Rows that were read: their texts are shared slices from here on.
#[derive(Debug)]
pub(crate) struct SealedRows {
    chunks: Vec<Chunk<Bytes>>,
    pools: Option<Pools>,
}

impl Drop for SealedRows {
    fn drop(&mut self) {
        if let Some(pools) = &self.pools {
            let lists = self.chunks.drain(..).map(|chunk| chunk.rows);
            lists.filter(|list| list.capacity() <= ROWS_KEPT_MAX).for_each(|list| pools.rows.give(list));
        }
    }
}

#[derive(Debug, Default)]
struct Chunk<B> {
    buffer: B,
    rows: Vec<Cells>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Cells {
    columns: [Cell; COLUMNS],
    retries: u32,
    retries_max: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Text(Span),
    Blob(Span),
}

#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
}

impl RawRows {
    /// Rows in buffers that are used again.
    pub(crate) fn pooled(pools: &Pools) -> Self {
        Self { pools: Some(pools.clone()), ..Self::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.rows
    }

    /// The last row's id, where that is a number.
    pub(crate) fn last_id(&self) -> Option<i64> {
        match self.last.rows.last()?.columns[Field::Id as usize] {
            Cell::Integer(id) => Some(id),
            _ => None,
        }
    }

    /// Bytes of all columns.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies a row in; one whose id is neither number nor text cannot be settled and is left out.
    pub(crate) fn read(
        &mut self,
        row: &Row<'_>,
        retries: u32,
        retries_max: Option<u32>,
    ) -> rusqlite::Result<()> {
        self.make_room();
        let Chunk { buffer, rows } = &mut self.last;
        let before = buffer.len();
        let mut cells = Cells { columns: [Cell::Null; COLUMNS], retries, retries_max };
        for (at, cell) in cells.columns.iter_mut().enumerate() {
            *cell = match row.get_ref(at)? {
                ValueRef::Null => continue,
                ValueRef::Integer(number) => Cell::Integer(number),
                ValueRef::Real(number) => Cell::Real(number),
                ValueRef::Text(text) => Cell::Text(put(buffer, text)),
                ValueRef::Blob(bytes) => Cell::Blob(put(buffer, bytes)),
            };
        }
        let is_id = match cells.columns[Field::Id as usize] {
            Cell::Integer(_) => true,
            Cell::Text(Span { start, end }) => {
                std::str::from_utf8(&buffer[start as usize..end as usize]).is_ok()
            }
            _ => false,
        };
        if !is_id {
            buffer.truncate(before);
            return Ok(());
        }
        rows.push(cells);
        let bytes = buffer.len() - before;
        self.rows += 1;
        self.bytes += bytes;
        self.row_bytes_max = self.row_bytes_max.max(bytes);
        Ok(())
    }

    pub(crate) fn seal(self) -> SealedRows {
        let share = |buffer| match &self.pools {
            Some(pools) => pools.buffers.share(buffer),
            None => Bytes::from(buffer),
        };
        let seal = |Chunk { buffer, rows }| Chunk { buffer: share(buffer), rows };
        let chunks = self.full.into_iter().chain([self.last]).map(seal).collect();
        SealedRows { chunks, pools: self.pools.clone() }
    }

    /// A row is never torn. One that is larger than all before it makes its buffer grow.
    fn make_room(&mut self) {
        let Chunk { buffer, rows } = &mut self.last;
        if buffer.capacity() - buffer.len() > self.row_bytes_max {
            return;
        }
        let bytes = self.bytes.clamp(CHUNK_BYTES_MIN, BUFFER_BYTES).max(self.row_bytes_max + 1);
        let next = match &self.pools {
            Some(Pools { buffers, rows: lists }) if bytes <= BUFFER_BYTES => {
                Chunk { buffer: buffers.take(BUFFER_BYTES), rows: lists.take(rows.len()) }
            }
            _ => Chunk { buffer: Vec::with_capacity(bytes), rows: Vec::with_capacity(rows.len()) },
        };
        let full = std::mem::replace(&mut self.last, next);
        self.full.extend(Some(full).filter(|full| !full.rows.is_empty()));
    }
}

impl SealedRows {
    pub(crate) fn get(&self, at: usize) -> Option<RawRow<'_>> {
        let mut before = 0;
        self.chunks.iter().find_map(|chunk| {
            let cells = chunk.rows.get(at - before);
            before += chunk.rows.len();
            cells.map(|cells| RawRow { buffer: &chunk.buffer, cells })
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = RawRow<'_>> {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.rows.iter().map(|cells| RawRow { buffer: &chunk.buffer, cells }))
    }
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawRow<'a> {
    buffer: &'a Bytes,
    cells: &'a Cells,
}

impl<'a> RawRow<'a> {
    pub(crate) fn get(&self, field: Field) -> ValueRef<'a> {
        let slice = |span: Span| &self.buffer[span.start as usize..span.end as usize];
        match self.cells.columns[field as usize] {
            Cell::Null => ValueRef::Null,
            Cell::Integer(number) => ValueRef::Integer(number),
            Cell::Real(number) => ValueRef::Real(number),
            Cell::Text(span) => ValueRef::Text(slice(span)),
            Cell::Blob(span) => ValueRef::Blob(slice(span)),
        }
    }

    /// The bytes of a text or blob, shared; empty for anything else.
    pub(crate) fn share(&self, field: Field) -> Bytes {
        match self.cells.columns[field as usize] {
            Cell::Text(span) | Cell::Blob(span) => self.buffer.slice(span.start as usize..span.end as usize),
            _ => Bytes::new(),
        }
    }

    pub(crate) fn retries(&self) -> u32 {
        self.cells.retries
    }

    pub(crate) fn retries_max(&self) -> Option<u32> {
        self.cells.retries_max
    }
}

fn put(buffer: &mut Vec<u8>, value: &[u8]) -> Span {
    let start = place(buffer);
    buffer.extend_from_slice(value);
    Span { start, end: place(buffer) }
}

fn place(buffer: &[u8]) -> u32 {
    u32::try_from(buffer.len()).expect("a row stays far below 4 GiB: SQLite's own limit is 1 GB")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// F8: a row is never torn between two buffers, however large it is.
    #[test]
    fn rows_come_out_as_they_went_in() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let sql = "with recursive n(i) as (select 0 union all select i + 1 from n where i < 300) \
                   select i, 'e' || i, null, 1.5, x'ff', '', null, null, null, null, null, null, null, \
                   zeroblob((i % 7) * (i % 7) * 3000), null from n";
        let mut raw = RawRows::default();
        let mut statement = connection.prepare(sql).unwrap();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            raw.read(row, 0, None).unwrap();
        }
        assert_eq!(raw.len(), 301);
        let sealed = raw.seal();
        assert!(sealed.get(301).is_none());
        for (i, row) in (0i64..).zip(sealed.iter()) {
            let at = usize::try_from(i).unwrap();
            assert_eq!(sealed.get(at).map(|row| row.get(Field::Id)), Some(ValueRef::Integer(i)));
            assert_eq!(row.get(Field::Id), ValueRef::Integer(i));
            assert_eq!(row.get(Field::EventId), ValueRef::Text(format!("e{i}").as_bytes()));
            assert_eq!(row.get(Field::Type), ValueRef::Null);
            assert_eq!(row.get(Field::Source), ValueRef::Real(1.5));
            assert_eq!(row.get(Field::AggregateType), ValueRef::Blob(b"\xff"));
            assert_eq!(row.get(Field::AggregateId), ValueRef::Text(b""));
            let length = usize::try_from((i % 7) * (i % 7) * 3000).unwrap();
            assert_eq!(row.share(Field::Payload), vec![0; length]);
        }
    }
}
