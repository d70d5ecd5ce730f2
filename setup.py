"""Compiles the modules below with mypyc when a wheel is built and the machine has a C compiler.

The compiled modules come from the same files, do the same to the byte, and stand beside the interpreted ones in the
wheel (`ANTECEDE_PURE=1` chooses those at run time). Without a compiler, or with `ANTECEDE_COMPILE=0` at build time, the
wheel has the interpreted ones alone. Editable installs are never compiled: a compiled module would hide later edits.

mypyc cannot compile msgspec's records, so modules that define some (packets, records, options, sizes) are not listed.
"""

import os
import sys
import tempfile
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

#: What a simulation and the way of a live message spend their time in, with the base classes of all that: by directory,
#: the modules.
COMPILED = {
    "client": "deadlines past pending publications",
    "core": "clocks domain_order epochs gate numbers partitions process source_gate",
    "node": "back_pressure batch_shares driver driving early feed history hold_times hub left_out numbering "
    "predecessors promises publishing session shares turns",
    "overlay": "extended members shared_tree trees vcube",
    "protocols": "bundling layered sizes",
    "protocols/diagnosis": "diagnosed",
    "protocols/aggregation": "broadcast hybrid process riding timer",
    "protocols/gossip": "broker catching_up digests group_join order pulling restoring round_reader sizes store "
    "subscriber subscriber_sessions views",
    "protocols/locamu": "column conversations identifiers log node relay routing sizes state",
    "protocols/tno": "attachment buffer clock leases module notifier outbox process publisher retries sizes subscriber",
    "protocols/vcube_ps": "carrying closing custody edges faithful join_replies membership memory order outside "
    "pipelined questions requests runs sizes source_order state streams suspicions view window",
    "sim": "engine faults log meter network peersim",
    "wire": "frames once waiters",
}

#: Brings mypyc.
NEEDS = ["mypy>=1.13,<3"]

#: Types of other libraries are not needed, and NumPy's take longer to read than the rest: they count as unknown.
OPTIONS = ["--config-file=", "--no-site-packages", "--ignore-missing-imports", "--follow-imports=silent"]


def files() -> list[str]:
    """The source files to compile. `ANTECEDE_COMPILE=core/gate,sim/engine` chooses some of them, for a quick trial."""
    names = [f"{directory}/{module}" for directory, modules in COMPILED.items() for module in modules.split()]
    asked = os.environ.get("ANTECEDE_COMPILE", "1")
    return [f"src/antecede/{name}.py" for name in (names if asked == "1" else asked.split(","))]


def has_compiler() -> bool:
    """Can an extension module be compiled here? Python's own headers are often not installed."""
    from setuptools._distutils.ccompiler import new_compiler  # noqa: PLC0415
    from setuptools._distutils.sysconfig import customize_compiler, get_python_inc  # noqa: PLC0415

    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "probe.c")
        source.write_text("#include <Python.h>\n")
        try:
            compiler = new_compiler()
            customize_compiler(compiler)
            compiler.compile([str(source)], output_dir=directory, include_dirs=[get_python_inc()])
        except Exception:  # each platform's compiler has errors of its own
            return False
    return True


def say(reason: str) -> None:
    print(
        f"antecede: {reason}; built without compiled modules: same results, simulations and nodes take longer",
        file=sys.stderr,
    )


def extensions() -> list[Extension]:
    """Translate the modules to C. Returns none where that is impossible.

    `ANTECEDE_OPTIMISE=0` lets the C compiler skip optimisation, which is most of its work: for tests.
    """
    try:
        from mypyc.build import mypycify  # noqa: PLC0415

        return mypycify(
            [*OPTIONS, f"--cache-dir={os.devnull}", *files()],
            opt_level=os.environ.get("ANTECEDE_OPTIMISE", "1"),
            debug_level="0",
            group_name="antecede",
        )
    except (ImportError, SystemExit) as error:  # mypyc exits where it refuses a module
        say("mypyc is not installed" if isinstance(error, ImportError) else "mypyc refused a module (see above)")
        return []


class Build(build_ext):
    """Builds the extension modules, all or none: each needs the library that has the code of all."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # each platform's compiler has errors of its own
            say(f"the C compiler failed ({error})")
            for output in self.get_outputs():
                Path(output).unlink(missing_ok=True)
            self.extensions = []


wanted = os.environ.get("ANTECEDE_COMPILE") != "0"
building = bool({"bdist_wheel", "build_ext"} & set(sys.argv))
able = wanted and has_compiler()
if building and wanted and not able:
    say("no C compiler with Python.h found")

setup(
    cmdclass={"build_ext": Build},
    ext_modules=extensions() if building and able else [],
    setup_requires=NEEDS if able else [],
)
