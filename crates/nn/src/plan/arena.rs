use std::ops::Range;

/// Buffers with a length and a time during which they are alive; placed once all are known.
#[derive(Default)]
pub(super) struct Arena {
    asked: Vec<Asked>,
}

struct Asked {
    len: usize,
    alive: Range<usize>,
}

/// A buffer of an arena.
#[derive(Clone, Copy)]
pub(super) struct Buffer(usize);

/// Buffers start at multiples of this many numbers: a cache line.
const ALIGNMENT: usize = 16;

impl Arena {
    /// Asks for a buffer that is alive from the start to before the end of `alive`.
    pub(super) fn ask(&mut self, len: usize, alive: Range<usize>) -> Buffer {
        self.asked.push(Asked { len, alive });
        Buffer(self.asked.len() - 1)
    }

    /// Numbers that are alive at one time, at most.
    #[cfg(test)]
    pub(super) fn most_alive(&self) -> usize {
        let moments = self.asked.iter().map(|asked| asked.alive.end).max().unwrap_or(0);
        let at = |moment: usize| {
            self.asked.iter().filter(|asked| asked.alive.contains(&moment)).map(|asked| asked.len).sum()
        };
        (0..moments).map(at).max().unwrap_or(0)
    }

    /// Gives every buffer a place: the largest first, each at the lowest place where no other buffer is alive with it.
    pub(super) fn place(self, shared: bool, moments: usize) -> Placed {
        let mut order: Vec<usize> = (0..self.asked.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(self.asked[i].len));
        let mut starts = vec![0; self.asked.len()];
        let mut placed: Vec<usize> = Vec::new();
        for i in order {
            let Asked { len, alive } = &self.asked[i];
            if *len == 0 {
                continue;
            }
            let overlaps = |j: &&usize| {
                let other = &self.asked[**j].alive;
                !shared || (other.start < alive.end && alive.start < other.end)
            };
            let mut taken: Vec<(usize, usize)> =
                placed.iter().filter(overlaps).map(|&j| (starts[j], starts[j] + self.asked[j].len)).collect();
            taken.sort_unstable();
            let mut start = 0;
            for (begin, end) in taken {
                if start + len <= begin {
                    break;
                }
                start = start.max(end.next_multiple_of(ALIGNMENT));
            }
            starts[i] = start;
            placed.push(i);
        }
        Placed { arena: self, starts, moments }
    }
}

pub(super) struct Placed {
    arena: Arena,
    starts: Vec<usize>,
    moments: usize,
}

impl Placed {
    /// Where a buffer lies. An empty one lies at 0..0, so that it overlaps with nothing.
    pub(super) fn range(&self, Buffer(index): Buffer) -> Range<usize> {
        let len = self.arena.asked[index].len;
        if len == 0 { 0..0 } else { self.starts[index]..self.starts[index] + len }
    }

    /// Numbers that the whole arena takes.
    pub(super) fn len(&self) -> usize {
        (0..self.starts.len()).map(|i| self.range(Buffer(i)).end).max().unwrap_or(0)
    }

    /// By time: the buffers whose life ends with it.
    pub(super) fn dead_after(&self) -> Vec<Vec<Range<usize>>> {
        let mut dead = vec![Vec::new(); self.moments + 1];
        for (i, asked) in self.arena.asked.iter().enumerate().filter(|(_, asked)| asked.len > 0) {
            dead[asked.alive.end - 1].push(self.range(Buffer(i)));
        }
        dead
    }
}

#[cfg(test)]
mod tests {
    use super::Arena;

    #[test]
    fn buffers_share_memory_only_when_they_are_never_alive_together() {
        let mut arena = Arena::default();
        let spans = [(100, 0..2), (50, 1..3), (100, 2..4), (10, 0..4), (0, 0..4), (60, 3..5)];
        let buffers: Vec<_> = spans.iter().map(|(len, alive)| arena.ask(*len, alive.clone())).collect();
        let placed = arena.place(true, 5);
        for i in 0..spans.len() {
            for j in 0..i {
                let (a, b) = (placed.range(buffers[i]), placed.range(buffers[j]));
                let together = spans[i].1.start < spans[j].1.end && spans[j].1.start < spans[i].1.end;
                assert!(!together || a.end <= b.start || b.end <= a.start || a.is_empty(), "{i} and {j} collide");
            }
        }
        assert!(placed.len() < spans.iter().map(|(len, _)| len).sum(), "nothing was shared");
    }
}
