"""Sessions pickle as what they were created from, and are created again where they arrive.

A :class:`Recipe` is a model's path or bytes, the options, and the SHA-256 of each file of the model. Each process keeps the
sessions it last reopened, so that tasks which arrive with the same recipe share one session.
"""

from __future__ import annotations

import copy
import hashlib
import os
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import _native
from ._node import packing
from ._options import SessionOptions, picklable

if TYPE_CHECKING:
    from ._session import InferenceSession

#: The most bytes of a model that a pickle may contain.
MOST_BYTES = 16 << 20
#: How many reopened sessions a process keeps.
N_KEPT = 4


class ModelChanged(RuntimeError):
    """A file of the model, or of its external data, is not the one that the session was created from.

    `expected` and `found` are SHA-256 digests in hexadecimal; `found` is empty if the file was not read.
    """

    def __init__(self, path: str, expected: str, found: str) -> None:
        super().__init__(path, expected, found)
        self.path, self.expected, self.found = path, expected, found

    def __str__(self) -> str:
        if not self.found:
            return f"{self.path} was written after the session was created from it"
        return f"{self.path} differs from the session's file: its SHA-256 is {self.found}, expected {self.expected}"


class ModelMissing(_native.NoSuchFile):
    """There is no file at a path that the session was created from, on this machine."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path

    def __str__(self) -> str:
        return f"[ONNXRuntimeError] : 3 : NO_SUCHFILE : {self.path} does not exist on this machine, and the session was created from it"


@dataclass(frozen=True)
class Recipe:
    """What a session is created from: a file, or bytes. `files` are the model's file and those of its external data with
    their digests; the content of a file whose digest is empty is not checked. `options` are the items of the state of
    :class:`SessionOptions`."""

    path: str | None
    model: bytes | None
    files: tuple[tuple[str, str], ...]
    options: tuple[tuple[str, Any], ...]
    cache_dir: str | None
    disabled: tuple[str, ...]


#: What changes when a file is replaced or written: its device, inode, size, and the time of its last write.
Stamp = tuple[int, int, int, int]


def stamp_of(path: str | os.PathLike[str]) -> Stamp | None:
    """The stamp of a file, None if there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def digest_of(path: str | os.PathLike[str]) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    digest, piece = hashlib.sha256(), memoryview(bytearray(1 << 20))
    with open(path, "rb", buffering=0) as file:
        while n := file.readinto(piece):
            digest.update(piece[:n])
    return digest.hexdigest()


def recipe_of(session: InferenceSession) -> Recipe:
    """The recipe of a session. TypeError if it cannot be pickled, :class:`ModelChanged` if a file of it was written since."""
    model = session._model if isinstance(session._model, bytes) else None
    if model is not None and len(model) > MOST_BYTES:
        raise TypeError(
            f"cannot pickle an InferenceSession of {len(model)} bytes, more than {MOST_BYTES}: save the model to a file"
            " that all processes see, and create the session from its path"
        )
    for file, stamp in session._stamps.items():
        if file not in session._digests:
            session._digests[file] = _digest_since(file, stamp)
    options = tuple(picklable(session._options_state).items())
    files = tuple(session._digests.items())
    return Recipe(session._file, model, files, options, session._cache_dir, tuple(session._disabled))


def _digest_since(path: str, stamp: Stamp | None) -> str:
    """The digest of a file that must not have been written since it had this stamp."""
    if not os.path.exists(path):
        raise ModelMissing(path)
    digest = digest_of(path)
    if stamp_of(path) != stamp:
        raise ModelChanged(path, "", "")
    return digest


def _stamp_with(path: str, digest: str) -> Stamp:
    """The stamp of a file that must have this digest, unless it is empty."""
    stamp = stamp_of(path)
    if stamp is None:
        raise ModelMissing(path)
    if digest and (found := digest_of(path)) != digest:
        raise ModelChanged(path, digest, found)
    return stamp


class _Reopened:
    """The sessions that this process reopened last, with the stamps of their files when they were checked."""

    def __init__(self) -> None:
        self.sessions: OrderedDict[Recipe, InferenceSession] = OrderedDict()
        self.lock = threading.Lock()

    def get(self, recipe: Recipe) -> InferenceSession:
        with self.lock:
            session = self.sessions.get(recipe)
            if session is None or any(stamp_of(file) != stamp for file, stamp in session._stamps.items()):
                self.sessions[recipe] = session = _opened(recipe)
                while len(self.sessions) > N_KEPT:
                    self.sessions.popitem(last=False)
            self.sessions.move_to_end(recipe)
            return session


_reopened = _Reopened()


def _forget() -> None:
    global _reopened
    _reopened = _Reopened()


if hasattr(os, "register_at_fork"):
    # A thread that does not exist in the child may have held the lock.
    os.register_at_fork(after_in_child=_forget)


def _opened(recipe: Recipe) -> InferenceSession:
    from ._session import InferenceSession

    options = SessionOptions._of_state(dict(recipe.options))
    model = recipe.model if recipe.path is None else recipe.path
    assert model is not None
    before = {file: _stamp_with(file, digest) for file, digest in recipe.files}
    # The first process of a machine writes the packed file, the others wait for it.
    with packing(recipe.cache_dir):
        session = InferenceSession(model, options, cache_dir=recipe.cache_dir, disabled_optimizers=recipe.disabled)
    for file, digest in recipe.files:
        if session._stamps.get(file) != before[file]:
            raise ModelChanged(file, digest, "")
        if digest:
            session._digests[file] = digest
    return session


def reopened(recipe: Recipe) -> InferenceSession:
    """A session of a recipe: the process's if it has one, otherwise a new one.

    Raises :class:`ModelMissing` or :class:`ModelChanged` if a file is not there or has other content.
    """
    return copy.copy(_reopened.get(recipe))
