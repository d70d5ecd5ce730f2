"""How this package reaches the workers of a cluster, and how they know that it is the same one.

On one machine workers import what the driver imports. On a cluster nothing is installed there but Python and the
libraries this package needs (NumPy, PyArrow, msgspec); the package itself travels as a zip of its sources, made when
the session starts, and stands before anything installed in the workers' path. `code_version` is the same for the zip
and for the tree it was made from: a worker that runs other code says so instead of contributing its results.
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

#: What a run's outcome depends on. The pipeline around it may change without making old results stale.
_DECIDES_RESULTS: Final = ("core", "overlay", "protocols", "sim", "trace", "search", "experiments")

#: Applications that have it: Spark refuses a second file of the same name.
_shipped: Final[set[str]] = set()


@cache
def code_version() -> str:
    """A short hash of the sources that decide what a run gives."""
    digest = hashlib.sha256()
    for package in _DECIDES_RESULTS:
        for name, source in _sources(files("antecede").joinpath(package), package):
            if name.endswith(".py"):
                digest.update(f"{name}\0".encode() + hashlib.sha256(source.read_bytes()).digest())
    return digest.hexdigest()[:12]


def ship_package(context: "SparkContext") -> None:
    """Send the package to every worker of `context`, those that join later too. A second time changes nothing."""
    if context.applicationId in _shipped:
        return
    _shipped.add(context.applicationId)
    archive = Path(tempfile.mkdtemp(prefix="antecede-")) / "antecede.zip"
    zip_package(archive)
    context.addPyFile(str(archive))


def zip_package(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, source in _sources(files("antecede"), "antecede"):
            archive.writestr(name, source.read_bytes())


def _sources(directory: Traversable, prefix: str) -> Iterator[tuple[str, Traversable]]:
    """Every file of the package, by name, in one order wherever it lies."""
    for entry in sorted(directory.iterdir(), key=lambda entry: entry.name):
        name = f"{prefix}/{entry.name}"
        if entry.is_dir():
            if entry.name != "__pycache__":
                yield from _sources(entry, name)
        else:
            yield name, entry
