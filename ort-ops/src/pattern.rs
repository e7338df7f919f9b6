//! Regular expressions of string operators.
//!
//! A text is read byte by byte by lazily built automata, in time proportional to its length, so that a search checks
//! for cancellation on its way.

mod re2;

use std::ops::Range;

use ort_graph::OpError;
use ort_tensor::{Pace, TensorError, charge};
use regex_automata::hybrid::LazyStateID;
use regex_automata::hybrid::dfa::{Cache, Config, DFA};
use regex_automata::nfa::thompson::{self, NFA, WhichCaptures};
use regex_automata::{Anchored, Input, MatchKind};
use regex_syntax::hir::Hir;

/// Bytes of the longest pattern.
const MAX_LEN: usize = 1 << 16;
/// Bytes of the largest NFA.
const MAX_NFA: usize = 4 << 20;
/// Bytes of the states of a DFA that are kept, if its smallest cache is not larger.
const CACHE: usize = 1 << 19;
/// Bytes, at most, that parsing takes per byte of a pattern.
const PARSED: usize = 512;

/// A regular expression that is matched with whole texts. The syntax is that of RE2 without `\C`: `\w`, `\d`, `\s` and
/// `\b` are ASCII, `.` and classes are characters of UTF-8.
#[derive(Clone, Debug)]
pub struct Pattern(DFA);

impl Pattern {
    /// The pattern `text` of the attribute `name`.
    ///
    /// # Errors
    /// [`OpError::AttributeValue`] if it is invalid, longer than 64 KiB, or its automaton is larger than 4 MiB;
    /// [`TensorError::NoMemory`] if no memory is left for it.
    pub fn new(name: &'static str, text: &str) -> Result<Self, OpError> {
        let source = Source { name, text };
        let forward = source.nfa(&source.parsed()?, false)?;
        Ok(Self(source.dfa(MatchKind::All, forward)?))
    }

    /// What matches the pattern with texts.
    ///
    /// # Errors
    /// [`TensorError::NoMemory`] if none is left for the states of the automaton.
    pub fn matcher(&self) -> Result<Matcher<'_>, TensorError> {
        Ok(Matcher(Walk::new(&self.0)?))
    }
}

/// A regular expression, as of a [`Pattern`], that is searched for in texts. Of several matches that begin at the same
/// place the longest is found.
#[derive(Clone, Debug)]
pub struct Search {
    /// The first place after which there is no better match, from any place.
    forward: DFA,
    /// The matches backwards from their end.
    reverse: DFA,
    /// The matches from a place.
    longest: DFA,
}

impl Search {
    /// A search for the pattern `text` of the attribute `name`.
    ///
    /// # Errors
    /// As [`Pattern::new`].
    pub fn new(name: &'static str, text: &str) -> Result<Self, OpError> {
        let source = Source { name, text };
        let hir = source.parsed()?;
        let forward = source.nfa(&hir, false)?;
        Ok(Self {
            longest: source.dfa(MatchKind::All, forward.clone())?,
            forward: source.dfa(MatchKind::LeftmostFirst, forward)?,
            reverse: source.dfa(MatchKind::All, source.nfa(&hir, true)?)?,
        })
    }

    /// What finds the pattern in texts.
    ///
    /// # Errors
    /// As [`Pattern::matcher`].
    pub fn finder(&self) -> Result<Finder<'_>, TensorError> {
        Ok(Finder {
            longest: Walk::new(&self.longest)?,
            forward: Walk::new(&self.forward)?,
            reverse: Walk::new(&self.reverse)?,
        })
    }
}

/// Matches a [`Pattern`] with whole texts.
#[derive(Debug)]
pub struct Matcher<'a>(Walk<'a>);

impl Matcher<'_> {
    /// Whether all of `text` matches.
    ///
    /// # Errors
    /// [`TensorError::Ended`] if the run was cancelled or timed out.
    pub fn is_match(&mut self, text: &str, pace: &mut Pace) -> Result<bool, TensorError> {
        Ok(self.0.last_end(text, 0, Anchored::Yes, pace)? == Some(text.len()))
    }
}

/// Finds the matches of a [`Search`].
#[derive(Debug)]
pub struct Finder<'a> {
    longest: Walk<'a>,
    forward: Walk<'a>,
    reverse: Walk<'a>,
}

impl Finder<'_> {
    /// Calls `visit` with each match, from the left. The next begins where one ends, or after an empty one at the next
    /// character.
    ///
    /// # Errors
    /// As [`Finder::find`], and those of `visit`.
    pub fn each(
        &mut self,
        text: &str,
        pace: &mut Pace,
        mut visit: impl FnMut(Range<usize>) -> Result<(), TensorError>,
    ) -> Result<(), TensorError> {
        let mut start = 0;
        while let Some(found) = self.find(text, start, pace)? {
            start = found.end;
            if found.is_empty() {
                let Some(next) = text[start..].chars().next() else { return visit(found) };
                start += next.len_utf8();
            }
            visit(found)?;
        }
        Ok(())
    }

    /// The leftmost match that begins at `start` or later, and of those the longest.
    ///
    /// # Errors
    /// [`TensorError::Ended`] if the run was cancelled or timed out.
    pub fn find(
        &mut self,
        text: &str,
        mut start: usize,
        pace: &mut Pace,
    ) -> Result<Option<Range<usize>>, TensorError> {
        while let Some(end) = self.forward.last_end(text, start, Anchored::No, pace)? {
            let Some(first) = self.reverse.last_start(text, start..end, pace)? else { break };
            if text.is_char_boundary(first) {
                let end = self.longest.last_end(text, first, Anchored::Yes, pace)?;
                return Ok(end.map(|end| first..end));
            }
            // An empty match within a character is none.
            start = text.ceil_char_boundary(first);
        }
        Ok(None)
    }
}

/// An automaton, with the states that were reached so far.
#[derive(Debug)]
struct Walk<'a> {
    dfa: &'a DFA,
    cache: Cache,
}

impl<'a> Walk<'a> {
    fn new(dfa: &'a DFA) -> Result<Self, TensorError> {
        let least = dfa.get_config().get_minimum_cache_capacity(dfa.get_nfa());
        charge(least.map_or(CACHE, |least| least.max(CACHE)))?;
        Ok(Self { dfa, cache: dfa.create_cache() })
    }

    /// The end of the last match that begins at `start` (anchored) or at any later place.
    fn last_end(
        &mut self,
        text: &str,
        start: usize,
        anchored: Anchored,
        pace: &mut Pace,
    ) -> Result<Option<usize>, TensorError> {
        let input = Input::new(text).range(start..).anchored(anchored);
        let first = self.dfa.start_state_forward(&mut self.cache, &input);
        let mut state = first.map_err(|_| no_states())?;
        let mut last = None;
        // A state tells whether there is a match before the byte that led to it.
        for (at, &byte) in text.as_bytes().iter().enumerate().skip(start) {
            state = self.next(state, byte, pace)?;
            if state.is_match() {
                last = Some(at);
            } else if state.is_dead() {
                return Ok(last);
            }
        }
        Ok(if self.end(state)?.is_match() { Some(text.len()) } else { last })
    }

    /// The least start of a match that ends at the end of `range`.
    fn last_start(
        &mut self,
        text: &str,
        range: Range<usize>,
        pace: &mut Pace,
    ) -> Result<Option<usize>, TensorError> {
        let bytes = text.as_bytes();
        let input = Input::new(text).range(range.clone()).anchored(Anchored::Yes);
        let first = self.dfa.start_state_reverse(&mut self.cache, &input);
        let mut state = first.map_err(|_| no_states())?;
        let mut last = None;
        for at in range.clone().rev() {
            state = self.next(state, bytes[at], pace)?;
            if state.is_match() {
                last = Some(at + 1);
            } else if state.is_dead() {
                return Ok(last);
            }
        }
        state = match range.start.checked_sub(1) {
            Some(before) => self.next(state, bytes[before], pace)?,
            None => self.end(state)?,
        };
        Ok(if state.is_match() { Some(range.start) } else { last })
    }

    #[inline]
    fn next(
        &mut self,
        state: LazyStateID,
        byte: u8,
        pace: &mut Pace,
    ) -> Result<LazyStateID, TensorError> {
        pace.go(1)?;
        if !state.is_tagged() {
            let next = self.dfa.next_state_untagged(&self.cache, state, byte);
            if !next.is_unknown() {
                return Ok(next);
            }
        }
        // A new state may consist of all states of the NFA.
        pace.go(self.dfa.get_nfa().states().len())?;
        self.dfa.next_state(&mut self.cache, state, byte).map_err(|_| no_states())
    }

    fn end(&mut self, state: LazyStateID) -> Result<LazyStateID, TensorError> {
        self.dfa.next_eoi_state(&mut self.cache, state).map_err(|_| no_states())
    }
}

/// The cache is never given up: it is cleared when it is full.
const fn no_states() -> TensorError {
    TensorError::NoMemory { n_bytes: CACHE, limit: None }
}

/// A pattern that is compiled.
struct Source<'a> {
    /// The attribute that has it.
    name: &'static str,
    text: &'a str,
}

impl Source<'_> {
    fn wrong(&self) -> OpError {
        OpError::AttributeValue { name: self.name, found: self.text.to_owned() }
    }

    fn parsed(&self) -> Result<Hir, OpError> {
        if self.text.len() > MAX_LEN {
            return Err(self.wrong());
        }
        charge(self.text.len() * PARSED)?;
        let translated = re2::translated(self.text).ok_or_else(|| self.wrong())?;
        regex_syntax::parse(&translated).map_err(|_| self.wrong())
    }

    fn nfa(&self, hir: &Hir, is_reverse: bool) -> Result<NFA, OpError> {
        let config = thompson::Config::new()
            .nfa_size_limit(Some(MAX_NFA))
            .which_captures(WhichCaptures::None)
            .reverse(is_reverse);
        let nfa = thompson::Compiler::new().configure(config).build_from_hir(hir);
        let nfa = nfa.map_err(|_| self.wrong())?;
        charge(nfa.memory_usage())?;
        Ok(nfa)
    }

    fn dfa(&self, kind: MatchKind, nfa: NFA) -> Result<DFA, OpError> {
        let config =
            Config::new().match_kind(kind).cache_capacity(CACHE).skip_cache_capacity_check(true);
        DFA::builder().configure(config).build_from_nfa(nfa).map_err(|_| self.wrong())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ort_tensor::{Ending, ended_by};

    use super::*;

    #[derive(Debug)]
    struct Ended;

    impl Ending for Ended {
        fn is_ended(&self) -> bool {
            true
        }
    }

    fn all(pattern: &str, text: &str) -> Vec<(usize, usize)> {
        let search = Search::new("pattern", pattern).unwrap();
        let mut all = Vec::new();
        let add = |range: Range<usize>| {
            all.push((range.start, range.end));
            Ok(())
        };
        search.finder().unwrap().each(text, &mut Pace::new(), add).unwrap();
        all
    }

    #[test]
    fn the_leftmost_longest_match_is_found() {
        let cases: [(&str, &str, &[(usize, usize)]); 20] = [
            ("a|ab|abc", "xabcab", &[(1, 4), (4, 6)]),
            ("a+?", "aaba", &[(0, 2), (3, 4)]),
            ("", "aé", &[(0, 0), (1, 1), (3, 3)]),
            ("é*", "éa", &[(0, 2), (2, 2), (3, 3)]),
            (r"\b", "ab c", &[(0, 0), (2, 2), (3, 3), (4, 4)]),
            (r"\B", "aéa", &[]),
            (r"\w+", "a_1é2", &[(0, 3), (5, 6)]),
            (r"[\W]", "aé", &[(1, 3)]),
            (r"(?i)É", "é", &[(0, 2)]),
            (r"\pL+", "é1ω", &[(0, 2), (3, 5)]),
            (r"\p{Greek}", "é1ω", &[(3, 5)]),
            ("[[&&]+", "a[&&", &[(1, 4)]),
            ("[]~~[:digit:]-]+", "a]~1-", &[(1, 5)]),
            ("[--/]", "a-./,", &[(1, 2), (2, 3), (3, 4)]),
            ("[+--]", "a+,-.", &[(1, 2), (2, 3), (3, 4)]),
            ("a{,2}|a{ 2}", "aa{,2}", &[(1, 6)]),
            (r"\Q(a|\E\141+", "(a|aa", &[(0, 5)]),
            (r"\<(?P<n>a)", "<a", &[(0, 2)]),
            ("^a|b$", "abab", &[(0, 1), (3, 4)]),
            ("(?m)^a$", "a\na\nb", &[(0, 1), (2, 3)]),
        ];
        for (pattern, text, expected) in cases {
            assert_eq!(all(pattern, text), expected, "{pattern} in {text}");
        }
    }

    #[test]
    fn what_re2_does_not_have_is_rejected() {
        for pattern in [
            "(",
            "a)(?:b",
            r"\1",
            "(?x)a",
            "(?u:a)",
            "(?-u)",
            r"\C",
            r"\",
            "[a",
            r"[a\",
            "[a--b]",
            r"[\b]",
            "(a{1000}){1000}",
            "[[:foo:]]",
            "[[:",
            "[[:]]",
            "[[:^^alpha:]]",
        ] {
            assert!(Pattern::new("pattern", pattern).is_err(), "{pattern}");
        }
        assert!(Pattern::new("pattern", &"a".repeat(MAX_LEN + 1)).is_err());
        assert!(Pattern::new("pattern", &"a".repeat(MAX_LEN)).is_ok());
    }

    #[test]
    fn a_long_search_can_be_cancelled() {
        // Each end of `a` is one of up to 1,000 places in the expression, and no set of them repeats.
        let pattern = Pattern::new("pattern", "(?s)(a|b)*a(a|b){1000}c").unwrap();
        let text = "abbabaab".repeat(1 << 20);
        let ending: Arc<dyn Ending> = Arc::new(Ended);
        let found =
            ended_by(&ending, || pattern.matcher().unwrap().is_match(&text, &mut Pace::new()));
        assert_eq!(found, Err(TensorError::Ended));
    }
}
