"""Sends this package to the workers of a cluster, and lets them check that it is the same code.

On one machine workers import what the driver imports. On a cluster only Python and this package's libraries (NumPy,
PyArrow, msgspec) are installed. The package itself travels as a zip of its sources, made when the session starts, and
comes first in the workers' path. `code_version` is the same for the zip and for the tree it was made from: a worker
that runs other code reports an error instead of results.
"""

import hashlib
import tempfile
import zipfile
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql.connect.session import SparkSession as RemoteSession

#: The packages that decide the result of a run. Changes of the pipeline around it do not make old results stale.
_DECIDES_RESULTS: Final = ("core", "overlay", "protocols", "sim", "trace", "search", "experiments")

#: Applications, and sessions of Spark Connect, that have the package. Spark refuses a second file of the same name.
_shipped: Final[set[str]] = set()


@cache
def code_version() -> str:
    """A short hash of the sources that decide the result of a run."""
    digest = hashlib.sha256()
    for package in _DECIDES_RESULTS:
        for name, source in _sources(files("antecede").joinpath(package), package):
            if name.endswith(".py"):
                digest.update(f"{name}\0".encode() + hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()[:12]


def ship_package(context: "SparkContext") -> None:
    """Send the package to every worker of `context`, also to those that join later. A second call does nothing."""
    if context.applicationId in _shipped:
        return
    _shipped.add(context.applicationId)
    context.addPyFile(str(_archive()))


def ship_to_server(session: "RemoteSession") -> None:
    """Send the package to the server of a Spark Connect session, for this session. A second call does nothing."""
    if session.session_id in _shipped:
        return
    _shipped.add(session.session_id)
    session.addArtifacts(str(_archive()), pyfile=True)


def _archive() -> Path:
    archive = Path(tempfile.mkdtemp(prefix="antecede-")) / "antecede.zip"
    zip_package(archive)
    return archive


def zip_package(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in _sources(files("antecede"), "antecede"):
            archive.writestr(name, source.read_bytes())


def _sources(directory: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    """Every file of the package by name, always in the same order."""
    for entry in sorted(directory.iterdir(), key=lambda entry: entry.name):
        name = f"{prefix}/{entry.name}"
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _sources(entry, name)
        else:
            yield name, entry
