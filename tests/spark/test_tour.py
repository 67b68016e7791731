"""The Spark part of `make demo` checks itself."""

import runpy
from pathlib import Path

TOUR = Path(__file__).parent.parent.parent / "examples" / "spark_tour.py"


def test_the_tour(spark, tmp_path, capsys):
    runpy.run_path(str(TOUR))["tour"](spark, tmp_path)
    assert "every byte is as it was written" in capsys.readouterr().out
