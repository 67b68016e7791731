"""The examples of Spark's page run, top to bottom, in one session."""

from tests.test_docs import FENCE, ROOT


def test_the_examples_run(tmp_path, spark):
    source = "\n".join(FENCE.findall((ROOT / "docs" / "spark.md").read_text()))
    exec(
        compile(source.replace("/data/spark", str(tmp_path)), "spark.md", "exec"), {"spark": spark}
    )
