//! A limit on the bytes of all requests in progress: their messages and outputs count until the response is sent.
//!
//! A request beyond the limit fails at once, so that overload does not become memory.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

use crate::failure::Failure;

/// The bytes of all requests in progress.
#[derive(Debug)]
pub(crate) struct Budget {
    limit: usize,
    used: AtomicUsize,
}

/// The bytes of one request; returned to the budget when dropped.
#[derive(Debug)]
pub(crate) struct Reservation {
    budget: Arc<Budget>,
    n_bytes: AtomicUsize,
}

impl Budget {
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicUsize::new(0) })
    }

    /// An empty reservation.
    pub(crate) fn reservation(self: &Arc<Self>) -> Arc<Reservation> {
        Arc::new(Reservation { budget: self.clone(), n_bytes: AtomicUsize::new(0) })
    }

    /// The bytes in use.
    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

impl Reservation {
    /// Reserves more bytes.
    ///
    /// # Errors
    /// If all requests would then exceed the limit.
    pub(crate) fn add(&self, n_bytes: usize) -> Result<(), Failure> {
        let limit = self.budget.limit;
        let more = |used: usize| used.checked_add(n_bytes).filter(|&sum| sum <= limit);
        let added = self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        added.map_err(|_| Failure::MemoryFull { limit })?;
        self.n_bytes.fetch_add(n_bytes, Ordering::Relaxed);
        Ok(())
    }

    /// A reservation of its own for some of the bytes; at most for all.
    pub(crate) fn split(&self, n_bytes: usize) -> Arc<Self> {
        let less = |own: usize| Some(own.saturating_sub(n_bytes));
        let own = self.n_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let n_bytes = AtomicUsize::new(own.unwrap_or_else(|own| own).min(n_bytes));
        Arc::new(Self { budget: self.budget.clone(), n_bytes })
    }

    /// The reserved bytes.
    pub(crate) fn n_bytes(&self) -> usize {
        self.n_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(*self.n_bytes.get_mut(), Ordering::Relaxed);
    }
}

/// The body of a request, whose bytes are reserved as they arrive.
#[derive(Debug)]
pub(crate) struct CountedBody {
    body: Body,
    /// The bytes that it may still have.
    rest: usize,
    limit: usize,
    reservation: Arc<Reservation>,
}

impl CountedBody {
    pub(crate) fn new(body: Body, limit: usize, reservation: Arc<Reservation>) -> Self {
        Self { body, rest: limit, limit, reservation }
    }

    fn count(&mut self, n_bytes: usize) -> Result<(), Failure> {
        let rest = self.rest.checked_sub(n_bytes);
        self.rest = rest.ok_or(Failure::TooLarge { limit: self.limit })?;
        self.reservation.add(n_bytes)
    }
}

impl HttpBody for CountedBody {
    type Data = Bytes;
    type Error = Failure;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Failure>>> {
        let frame = match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Ready(Some(frame)) => frame,
        };
        let frame = frame.map_err(|error| Failure::Disconnected(error.to_string()));
        let counted = frame.and_then(|frame| {
            self.count(frame.data_ref().map_or(0, Bytes::len))?;
            Ok(frame)
        });
        Poll::Ready(Some(counted))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The body of a response, which holds a reservation or a span until it is sent.
#[derive(Debug)]
pub(crate) struct HeldBody<T> {
    body: Body,
    _held: Arc<T>,
}

impl<T> HeldBody<T> {
    pub(crate) fn new(body: Body, held: Arc<T>) -> Self {
        Self { body, _held: held }
    }
}

impl<T> HttpBody for HeldBody<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    #[test]
    fn reservations_return_their_bytes() {
        let budget = Budget::new(10);
        let first = budget.reservation();
        first.add(4).unwrap();
        first.add(4).unwrap();
        let second = budget.reservation();
        assert!(matches!(second.add(3), Err(Failure::MemoryFull { limit: 10 })));
        second.add(2).unwrap();
        assert_eq!(budget.used(), 10);
        let part = first.split(5);
        assert_eq!((first.n_bytes(), part.n_bytes(), budget.used()), (3, 5, 10));
        assert_eq!(first.split(4).n_bytes(), 3);
        drop(part);
        drop(first);
        assert_eq!(budget.used(), 2);
    }

    #[tokio::test]
    async fn a_body_ends_at_its_limit_or_that_of_all() {
        let body = |limit, budget: &Arc<Budget>| {
            CountedBody::new(Body::from("12345"), limit, budget.reservation())
        };
        let budget = Budget::new(5);
        assert_eq!(body(5, &budget).collect().await.unwrap().to_bytes(), "12345");
        let failure = body(4, &budget).collect().await.unwrap_err();
        assert!(matches!(failure, Failure::TooLarge { limit: 4 }));
        let failure = body(5, &Budget::new(4)).collect().await.unwrap_err();
        assert!(matches!(failure, Failure::MemoryFull { limit: 4 }));
        assert_eq!(budget.used(), 0);
    }
}
