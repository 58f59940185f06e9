"""Says in one sentence what to install where the extra `spark` is missing.

`dray.spark` imports this module first: what it imports behind would say that there is no pyarrow,
and not what brings it.
"""

from importlib.util import find_spec

for _package in ("pyspark", "pyarrow", "pandas"):
    if find_spec(_package) is None:
        raise ModuleNotFoundError(
            f"{_package} is not installed; `pip install 'dray[spark]'` brings Spark", name=_package
        )
