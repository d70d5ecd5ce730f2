"""Names are loaded when they are first used, and a missing extra is named with the pip command."""

import asyncio
import subprocess
import sys
from types import ModuleType

import pytest

import antecede
import antecede.journal
import antecede.report
import antecede.spark
import antecede.wire.security
from antecede.core.errors import MissingExtraError
from antecede.gateway import NatsService
from antecede.loading import EXTRAS, need_extra

PACKAGES = (antecede, antecede.journal, antecede.report, antecede.spark, antecede.wire.security)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_every_public_name_is_listed_and_can_be_loaded(package: ModuleType) -> None:
    listed = set(dir(package))
    for name in package.__all__:
        assert name in listed
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        package.nothing  # noqa: B018


def loaded_by(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after `code`."""
    command = [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"]
    return set(subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout.split())


def test_a_node_without_certificates_does_not_load_cryptography() -> None:
    loaded = loaded_by("import antecede.node.__main__")
    assert "antecede.wire.security.tokens" in loaded
    assert not {"numpy", "pyarrow", "pandas", "pyspark", "cryptography", "typer"} & loaded


def test_connecting_loads_neither_protocols_nor_a_node() -> None:
    loaded = loaded_by("import antecede; antecede.connect")
    assert "antecede.client.connect" in loaded
    unwanted = ("protocols", "overlay", "sim", "node", "journal", "trace", "audit")
    assert not [name for name in loaded if name.startswith(tuple(f"antecede.{package}" for package in unwanted))]
    assert not {"numpy", "pyarrow", "pandas", "pyspark", "cryptography", "typer"} & loaded


@pytest.mark.parametrize("extra", EXTRAS)
def test_an_installed_extra_is_accepted_and_a_missing_one_is_named(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    need_extra(extra, "antecede simulate")
    for library in EXTRAS[extra]:
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, library, None)
            with pytest.raises(MissingExtraError) as raised:
                need_extra(extra, "antecede simulate")
        assert str(raised.value) == f"antecede simulate needs the extra {extra}; pip install 'antecede[{extra}]'"


def test_a_package_of_an_extra_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.delattr(antecede.spark, "causal_sort", raising=False)
    with pytest.raises(MissingExtraError, match=r"antecede\.spark needs the extra spark"):
        antecede.spark.causal_sort  # noqa: B018


def test_a_nats_service_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "nats", None)
    with pytest.raises(MissingExtraError, match="NatsService needs the extra nats"):
        asyncio.run(NatsService().open())


def test_the_vectorised_judge_names_its_extra() -> None:
    code = "import sys; sys.modules['numpy'] = None; import antecede.audit; import antecede.audit.vectorised"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False).stderr
    assert said.splitlines()[-1].endswith("antecede.audit.vectorised needs the extra lab; pip install 'antecede[lab]'")
