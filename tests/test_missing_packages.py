"""What needs a package that lsmerge does not bring says which, and how to get it."""

import sys

import pyarrow as pa
import pytest

import lsmerge
import lsmerge.otel
from lsmerge.errors import MissingPackageError


@pytest.fixture
def table(memory_uri):
    table = lsmerge.create_table(memory_uri, pa.schema({"k": pa.int64()}), "k")
    table.upsert({"k": [1]})
    return table


@pytest.mark.parametrize(
    ("package", "use"),
    [
        ("pandas", lambda scan: scan.to_pandas()),
        ("polars", lambda scan: scan.to_polars()),
        ("polars", lambda scan: scan.to_polars_lazy()),
        ("opentelemetry", lambda _scan: lsmerge.otel.instrument()),
        ("deltalake", lambda scan: scan.write_delta("memory://nowhere")),
    ],
)
def test_a_missing_package_is_named(table, monkeypatch, package, use):
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError) as caught:
        use(table.scan())
    assert caught.value.package == package
    assert str(caught.value).partition("pip install ")[2].startswith(package)
    assert isinstance(caught.value, ImportError)


def test_another_failure_of_an_import_stays_what_it_is(table, monkeypatch):
    monkeypatch.setitem(sys.modules, "polars", None)
    from lsmerge.packages import needed

    with pytest.raises(ModuleNotFoundError, match="no_such_thing"), needed("polars", "a test"):
        import no_such_thing  # noqa: F401
