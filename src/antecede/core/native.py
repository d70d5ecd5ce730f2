"""Marks the compiled classes that interpreted ones may extend.

`setup.py` lists the modules that mypyc compiles. A compiled class is closed to interpreted subclasses unless it is
marked with `mypyc_attr(allow_interpreted_subclasses=True)`. mypyc reads the mark when it compiles and never calls it,
so `mypy_extensions` need not be installed where antecede runs.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:

    def mypyc_attr(**_options):
        return lambda cls: cls


__all__ = ["mypyc_attr"]
