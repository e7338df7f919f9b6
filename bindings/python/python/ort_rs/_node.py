"""A model on a machine: one file of it and one packed file for all processes, written once, under a lock."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator

try:
    import fcntl
except ImportError:  # Windows: without the lock, processes that start at once may each write the file.
    fcntl = None  # type: ignore[assignment]


def folder_of(cache_dir: str | os.PathLike[str] | None) -> str:
    """The folder for the models of this machine, created if necessary; below the folder for temporary files by default.

    PermissionError if other users may write to it: they could replace what is computed.
    """
    user = os.getuid() if hasattr(os, "getuid") else None
    folder = os.fspath(cache_dir) if cache_dir is not None else os.path.join(tempfile.gettempdir(), f"ort_rs-{user}")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    # Another user may have put a link where the default folder would be.
    stat = os.stat(folder, follow_symlinks=cache_dir is not None)
    if user is not None and (stat.st_uid not in (user, 0) or stat.st_mode & 0o022):
        raise PermissionError(f"{folder} belongs to another user, or others may write to it")
    return os.path.abspath(folder)


@contextlib.contextmanager
def locked(folder: str, name: str) -> Iterator[None]:
    """Holds a lock that one process of this machine has at a time; the system releases it if the process is killed."""
    with open(os.path.join(folder, f"{name}.lock"), "ab") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def packing(folder: str | None) -> Iterator[None]:
    """Holds the lock of a cache folder, if there is one and locks can be written to it."""
    with contextlib.ExitStack() as held:
        if folder is not None:
            with contextlib.suppress(OSError):
                os.makedirs(folder, mode=0o700, exist_ok=True)
                held.enter_context(locked(folder, "packing"))
        yield


def file_of(folder: str, key: str, model: Callable[[], bytes]) -> str:
    """The file of a model that is not a file, written by the first process of this machine that asks for `key`.

    It is named by the digest of the bytes, which `model` returns; a link named by `key` leads to it.
    """
    link = os.path.join(folder, f"model-{key}")
    with locked(folder, f"model-{key}"):
        if not os.path.exists(link):
            data = model()
            name = f"model-{hashlib.sha256(data).hexdigest()}"
            _write(os.path.join(folder, name), data)
            if os.path.basename(link) != name:
                _replace_link(link, name)
    return os.path.realpath(link)


def _write(path: str, data: bytes) -> None:
    if os.path.exists(path):
        return
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix="writing-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _replace_link(link: str, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(link)
    os.symlink(name, link)
