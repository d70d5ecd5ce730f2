"""Checks, before PySpark starts, that there is a Java it can use: PySpark's own answer is a page of stack trace."""

import os
import re
import subprocess
from functools import cache
from typing import Final

from antecede.core import UsageError

JAVA_MIN: Final = 17
_REMEDY: Final = "install one, for instance `apt-get install openjdk-17-jre-headless`, or set JAVA_HOME"
#: A JVM on a busy machine may take seconds to say its version.
_PATIENCE_S: Final = 60


def java_command() -> str:
    """The `java` that PySpark will start."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else "java"


@cache
def check_java() -> int:
    """Return the major version of the Java that Spark will use. Raises `UsageError` if Spark cannot use it."""
    java = java_command()
    # Spark loads this module at the start. Runtimes without it (the wheels on PyPI, for instance) fail obscurely.
    probe = [java, "--add-modules", "jdk.incubator.vector", "-version"]
    try:
        done = subprocess.run(probe, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except OSError:
        raise UsageError("Java", java, f"was not found; Spark needs version {JAVA_MIN} or later", _REMEDY) from None
    except subprocess.TimeoutExpired:
        problem = f"did not say its version within {_PATIENCE_S} s"
        raise UsageError("Java", java, problem, _REMEDY) from None
    said = done.stderr + done.stdout
    found = re.search(r'version "(\d+)(?:\.(\d+))?', said) or _version_alone(java)
    version = int(found[2] or 0) if found and found[1] == "1" else int(found[1]) if found else 0  # Java 8 says 1.8
    if found and version < JAVA_MIN:
        raise UsageError("Java", java, f"is version {version}; Spark needs {JAVA_MIN} or later", _REMEDY)
    if done.returncode != 0:
        why = "it lacks the module jdk.incubator.vector" if "vector" in said else _first_line(said)
        raise UsageError("Java", java, f"cannot run Spark: {why}", _REMEDY)
    return version


def _version_alone(java: str) -> re.Match[str] | None:
    """Ask an old Java, which knows no modules, for its version alone."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return re.search(r'version "(\d+)(?:\.(\d+))?', done.stderr + done.stdout)


def _first_line(text: str) -> str:
    return (text.strip().splitlines() or ["it ended without output"])[0]
