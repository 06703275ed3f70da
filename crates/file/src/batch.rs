//! A batch of lines on its way to the writer, and what became of each.

use postrider_core::broken::BrokenKeys;
use postrider_core::{Key, Refusal, Verdict};

/// Messages as lines in one buffer, in order.
#[derive(Default)]
pub(crate) struct Batch {
    /// What will be appended.
    pub buffer: Vec<u8>,
    /// One per message.
    pub lines: Vec<Line>,
}

/// One message.
pub(crate) struct Line {
    pub key: Option<Key>,
    pub leads: bool,
    /// Where its bytes end in the buffer; they begin where those of the line before end.
    pub end: usize,
    /// Why it must not be written; it has no bytes then.
    pub refusal: Option<Refusal>,
}

impl Batch {
    /// Refuses the lines that follow a failed one of their key and takes their bytes out (SNK-05).
    pub(crate) fn sift(&mut self, broken: &mut BrokenKeys) {
        let (mut start, mut kept) = (0, 0);
        for line in &mut self.lines {
            let bytes = start..line.end;
            start = line.end;
            if !broken.admits(line.key.as_ref(), line.leads) {
                line.refusal = Some(Refusal::Withheld);
            }
            if line.refusal.is_some() {
                broken.add(line.key.as_ref());
            } else {
                let len = bytes.len();
                if kept != bytes.start {
                    self.buffer.copy_within(bytes, kept);
                }
                kept += len;
            }
            line.end = kept;
        }
        self.buffer.truncate(kept);
    }

    /// What became of each line, given what became of the append.
    pub(crate) fn verdicts(
        &mut self,
        appended: Result<(), Refusal>,
        broken: &mut BrokenKeys,
    ) -> Vec<(usize, Verdict)> {
        let verdict = |line: &mut Line| match (line.refusal.take(), &appended) {
            (Some(refusal), _) => Verdict::Refusal(refusal),
            (None, Ok(())) => Verdict::Receipt,
            (None, Err(refusal)) => {
                broken.add(line.key.as_ref());
                Verdict::Refusal(refusal.clone())
            }
        };
        self.lines.iter_mut().map(verdict).enumerate().collect()
    }

    /// Nobody heard what became of it.
    pub(crate) fn in_doubt(&self, broken: &mut BrokenKeys) {
        self.lines.iter().for_each(|line| broken.add(line.key.as_ref()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(lines: &[(&'static str, bool, &str, Option<Refusal>)]) -> Batch {
        let mut batch = Batch::default();
        for (key, leads, text, refusal) in lines {
            if refusal.is_none() {
                batch.buffer.extend_from_slice(text.as_bytes());
            }
            let (end, key) = (batch.buffer.len(), Some(Key::new("", *key)));
            batch.lines.push(Line { key, leads: *leads, end, refusal: refusal.clone() });
        }
        batch
    }

    /// SNK-05: what follows a refused line of its key is taken out, neighbours stay, and a lead starts anew.
    #[test]
    fn sifting_takes_out_what_follows_a_refused_line_of_its_key() {
        let mut broken = BrokenKeys::default();
        let withheld = Some(Refusal::Withheld);
        let mut lines = batch(&[
            ("a", true, "a1\n", None),
            ("b", true, "b1\n", withheld.clone()),
            ("b", false, "b2\n", None),
            ("a", false, "a2\n", None),
            ("b", true, "b3\n", None),
            ("b", false, "b4\n", None),
        ]);
        lines.sift(&mut broken);
        assert_eq!(std::str::from_utf8(&lines.buffer).unwrap(), "a1\na2\nb3\nb4\n");
        let receipts: Vec<usize> = lines
            .verdicts(Ok(()), &mut broken)
            .into_iter()
            .filter_map(|(index, verdict)| (verdict == Verdict::Receipt).then_some(index))
            .collect();
        assert_eq!(receipts, [0, 3, 4, 5]);
    }

    /// SNK-05: a failed append breaks every key in it.
    #[test]
    fn a_failed_append_breaks_its_keys_for_the_next_batch() {
        let mut broken = BrokenKeys::default();
        let mut first = batch(&[("a", true, "a1\n", None)]);
        first.sift(&mut broken);
        first.verdicts(Err(Refusal::Withheld), &mut broken);
        let mut next = batch(&[("a", false, "a2\n", None), ("c", false, "c1\n", None)]);
        next.sift(&mut broken);
        assert_eq!(next.buffer, b"c1\n");
    }
}
