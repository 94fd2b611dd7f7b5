"""Folders that every host of a cluster sees: on its own disk, or wherever pyarrow reaches."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def opened(uri: str) -> tuple[Any, str]:
    """The file system of a folder, and the folder's path in it."""
    from pyarrow import fs

    if "://" not in uri and not uri.startswith("file:"):
        return fs.LocalFileSystem(), uri
    # Spark writes `file:/tmp`, which is no address elsewhere.
    if uri.startswith("file:/") and not uri.startswith("file://"):
        uri = f"file://{uri[len('file:') :]}"
    system, path = fs.FileSystem.from_uri(uri)
    return system, path


def files(uri: str) -> dict[str, int]:
    """The Parquet files of a folder, with their sizes; none if there is no such folder."""
    from pyarrow import fs

    system, path = opened(uri)
    found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return {info.base_name: info.size for info in found if info.is_file and _is_shard(info.base_name)}


@contextmanager
def local(uri: str) -> Iterator[str]:
    """The folder on this machine: itself, or a copy that is deleted in the end."""
    from pyarrow import fs

    system, path = opened(uri)
    if isinstance(system, fs.LocalFileSystem):
        yield path
        return
    folder = tempfile.mkdtemp(prefix="paceline-shards-")
    try:
        for name in files(uri):
            with system.open_input_stream(f"{path}/{name}") as read, open(Path(folder, name), "wb") as write:
                shutil.copyfileobj(read, write, 1 << 20)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write(uri: str, content: bytes) -> None:
    """Writes a small file; whoever reads it sees all of it or nothing, where renaming is one step."""
    system, path = opened(uri)
    with system.open_output_stream(f"{path}.new") as stream:
        stream.write(content)
    system.move(f"{path}.new", path)


def read(uri: str) -> bytes | None:
    """The content of a small file; nothing if it is not there."""
    system, path = opened(uri)
    try:
        with system.open_input_stream(path) as stream:
            content: bytes = stream.read()
            return content
    except FileNotFoundError:
        return None


def delete(uri: str) -> None:
    """Deletes a folder and all that is in it, if it is there."""
    system, path = opened(uri)
    try:
        system.delete_dir(path)
    except FileNotFoundError:
        pass


def make_private(uri: str) -> None:
    """Makes a folder that only its owner reads, where the file system knows owners."""
    from pyarrow import fs

    system, path = opened(uri)
    if isinstance(system, fs.LocalFileSystem):
        Path(path).mkdir(mode=0o700, parents=True)
        Path(path).chmod(0o700)
    else:
        system.create_dir(path)


def folders(uri: str) -> list[str]:
    """The names of the folders in a folder; none if it is not there."""
    from pyarrow import fs

    system, path = opened(uri)
    found = system.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return [info.base_name for info in found if info.type == fs.FileType.Directory]


def _is_shard(name: str) -> bool:
    return name.endswith(".parquet") and not name.startswith(("_", "."))
