//! Rows as a statement gave them: copied once, so that the thread that owns the connection only reads. What they mean
//! is found out later, by whoever asked for them.

use bytes::Bytes;

use super::pool::{BUFFER_BYTES, Pool};
use super::{Field, Value};

/// Without a pool, a buffer that is full is followed by one as large as all before it together, but of this size at least.
const CHUNK_BYTES_MIN: usize = 4 * 1024;
/// A longer list of rows, of very small ones, is not kept for its next use.
const ROWS_KEPT_MAX: usize = 256;

/// Rows that are being read.
#[derive(Debug, Default)]
pub struct RawRows {
    full: Vec<Chunk<Vec<u8>>>,
    last: Chunk<Vec<u8>>,
    rows: usize,
    bytes: usize,
    row_bytes_max: usize,
    pools: Option<Pools>,
}

/// Where the memory of rows comes from and goes back to.
#[derive(Clone, Debug)]
pub struct Pools {
    buffers: Pool<u8>,
    rows: Pool<Cells>,
}

impl Default for Pools {
    fn default() -> Self {
        Self::new()
    }
}

impl Pools {
    /// Empty ones.
    pub fn new() -> Self {
        Self { buffers: Pool::new(), rows: Pool::new() }
    }
}

/// Rows that were read: their texts are shared slices from here on.
#[derive(Debug)]
pub struct SealedRows {
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
struct Cells {
    columns: [Cell; Field::COUNT],
    retries: u32,
    retries_max: Option<u32>,
}

#[derive(Clone, Copy, Debug)]
enum Cell {
    Null,
    Integer(i64),
    Real(f64),
    Time(i64),
    Local(i64),
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
    pub fn pooled(pools: &Pools) -> Self {
        Self { pools: Some(pools.clone()), ..Self::default() }
    }

    /// Rows so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// The last row's id, where that is a number.
    pub fn last_id(&self) -> Option<i64> {
        match self.last.rows.last()?.columns[Field::Id as usize] {
            Cell::Integer(id) => Some(id),
            _ => None,
        }
    }

    /// Bytes of all columns.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Copies a row in; one whose id is neither number nor text cannot be settled and is left out.
    ///
    /// # Errors
    /// When the driver cannot give a value.
    pub fn read<'r, E>(
        &mut self,
        retries: u32,
        retries_max: Option<u32>,
        mut value: impl FnMut(usize) -> Result<Value<'r>, E>,
    ) -> Result<(), E> {
        self.make_room();
        let Chunk { buffer, rows } = &mut self.last;
        let before = buffer.len();
        let mut cells = Cells { columns: [Cell::Null; Field::COUNT], retries, retries_max };
        for (at, cell) in cells.columns.iter_mut().enumerate() {
            *cell = match value(at)? {
                Value::Null => continue,
                Value::Integer(number) => Cell::Integer(number),
                Value::Real(number) => Cell::Real(number),
                Value::Time(us) => Cell::Time(us),
                Value::Local(us) => Cell::Local(us),
                Value::Text(text) => Cell::Text(put(buffer, text)),
                Value::Blob(bytes) => Cell::Blob(put(buffer, bytes)),
                Value::Uuid(bytes) => Cell::Text(put(buffer, &hyphenated(bytes))),
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

    /// No more rows are read.
    pub fn seal(self) -> SealedRows {
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
    /// The row at a place.
    pub fn get(&self, at: usize) -> Option<RawRow<'_>> {
        let mut before = 0;
        self.chunks.iter().find_map(|chunk| {
            let cells = chunk.rows.get(at - before);
            before += chunk.rows.len();
            cells.map(|cells| RawRow { buffer: &chunk.buffer, cells })
        })
    }

    /// All rows.
    pub fn iter(&self) -> impl Iterator<Item = RawRow<'_>> {
        self.chunks
            .iter()
            .flat_map(|chunk| chunk.rows.iter().map(|cells| RawRow { buffer: &chunk.buffer, cells }))
    }
}

/// One row.
#[derive(Clone, Copy, Debug)]
pub struct RawRow<'a> {
    buffer: &'a Bytes,
    cells: &'a Cells,
}

impl<'a> RawRow<'a> {
    /// What a column holds.
    pub fn get(&self, field: Field) -> Value<'a> {
        let slice = |span: Span| &self.buffer[span.start as usize..span.end as usize];
        match self.cells.columns[field as usize] {
            Cell::Null => Value::Null,
            Cell::Integer(number) => Value::Integer(number),
            Cell::Real(number) => Value::Real(number),
            Cell::Time(us) => Value::Time(us),
            Cell::Local(us) => Value::Local(us),
            Cell::Text(span) => Value::Text(slice(span)),
            Cell::Blob(span) => Value::Blob(slice(span)),
        }
    }

    /// The bytes of a text or blob, shared; empty for anything else.
    pub fn share(&self, field: Field) -> Bytes {
        match self.cells.columns[field as usize] {
            Cell::Text(span) | Cell::Blob(span) => self.buffer.slice(span.start as usize..span.end as usize),
            _ => Bytes::new(),
        }
    }

    /// Retries scheduled so far.
    pub fn retries(&self) -> u32 {
        self.cells.retries
    }

    /// The row's own bound on retries.
    pub fn retries_max(&self) -> Option<u32> {
        self.cells.retries_max
    }
}

fn put(buffer: &mut Vec<u8>, value: &[u8]) -> Span {
    let start = place(buffer);
    buffer.extend_from_slice(value);
    Span { start, end: place(buffer) }
}

fn place(buffer: &[u8]) -> u32 {
    u32::try_from(buffer.len()).expect("a row stays far below 4 GiB: every database's own limit is 1 GB")
}

/// A UUID as people write it.
fn hyphenated(bytes: [u8; 16]) -> [u8; 36] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [b'-'; 36];
    let mut at = 0;
    for byte in bytes {
        if matches!(at, 8 | 13 | 18 | 23) {
            at += 1;
        }
        text[at] = DIGITS[usize::from(byte >> 4)];
        text[at + 1] = DIGITS[usize::from(byte & 15)];
        at += 2;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(i: i64, at: usize, zeros: &[u8]) -> Value<'_> {
        match at {
            0 => Value::Integer(i),
            1 => Value::Uuid(u128::try_from(i).unwrap().to_be_bytes()),
            3 => Value::Real(1.5),
            4 => Value::Blob(b"\xff"),
            5 => Value::Text(b""),
            7 => Value::Time(i),
            8 => Value::Local(i),
            13 => Value::Blob(zeros),
            _ => Value::Null,
        }
    }

    /// F8: a row is never torn between two buffers, however large it is.
    #[test]
    fn rows_come_out_as_they_went_in() {
        let length = |i: i64| usize::try_from((i % 7) * (i % 7) * 3000).unwrap();
        let mut raw = RawRows::default();
        for i in 0..=300 {
            let zeros = vec![0; length(i)];
            raw.read(0, None, |at| Ok::<_, ()>(value(i, at, &zeros))).unwrap();
        }
        assert_eq!(raw.len(), 301);
        let sealed = raw.seal();
        assert!(sealed.get(301).is_none());
        for (i, row) in (0i64..).zip(sealed.iter()) {
            let at = usize::try_from(i).unwrap();
            assert_eq!(sealed.get(at).map(|row| row.get(Field::Id)), Some(Value::Integer(i)));
            let uuid = format!("00000000-0000-0000-0000-{i:012x}");
            assert_eq!(row.get(Field::EventId), Value::Text(uuid.as_bytes()));
            assert_eq!(row.get(Field::Type), Value::Null);
            assert_eq!(row.get(Field::Source), Value::Real(1.5));
            assert_eq!(row.get(Field::AggregateType), Value::Blob(b"\xff"));
            assert_eq!(row.get(Field::AggregateId), Value::Text(b""));
            assert_eq!(row.get(Field::Time), Value::Time(i));
            assert_eq!(row.get(Field::ContentType), Value::Local(i));
            assert_eq!(row.share(Field::Payload), vec![0; length(i)]);
        }
    }

    #[test]
    fn a_row_without_an_id_that_finds_it_again_is_left_out() {
        let mut raw = RawRows::default();
        for id in [Value::Null, Value::Real(1.0), Value::Blob(b"x"), Value::Text(b"\xff"), Value::Text(b"x")]
        {
            raw.read(0, None, |at| Ok::<_, ()>(if at == 0 { id } else { Value::Null })).unwrap();
        }
        assert_eq!(raw.len(), 1);
    }
}
