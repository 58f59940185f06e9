"""Without the extra, an import of `dray.spark` names what to install."""

from __future__ import annotations

import importlib
import sys

import pytest


@pytest.mark.parametrize("package", ["pyspark", "pyarrow", "pandas"])
def test_an_import_without_the_extra_names_the_extra(package, monkeypatch):
    monkeypatch.delitem(sys.modules, "dray.spark", raising=False)
    monkeypatch.delitem(sys.modules, "dray.spark.extra", raising=False)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ModuleNotFoundError) as told:
        importlib.import_module("dray.spark")
    sentence = f"{package} is not installed; `pip install 'dray[spark]'` brings Spark"
    assert (str(told.value), told.value.name) == (sentence, package)
