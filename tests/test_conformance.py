"""The conformance cases that this version answers, in every variant that must not change an answer.

AVAILABLE is the one list of what is expected to pass: a case is collected if its id starts with an
entry. `python -m tests.conformance.run` runs the others too and says what is not available yet.
"""

from pathlib import Path

import pytest

from tests.conformance.run import CaseFailed, Variant, load_cases, main, run_case

AVAILABLE = {
    "dd-",
    "sq-0",
    "sq-1",
    "sq-25",
    "sq-26",
    "cl-01",
    "cl-03",
    "cl-05",
    "cl-06",
    "er-02",
    "er-03",
    "er-05",
    "er-07",
    "er-09",
    "er-10",
    "law-01",
    "fluss-ver-null-over-null",
    "fluss-ver-int32",
    "fluss-ver-timestamp9",
    "fluss-ver-timestamp-ltz9",
    "fluss-ver-out-of-order",
    "fluss-ver-delete-disable",
    "fluss-ver-no-column-rejected",
    "fluss-ver-unknown-column-rejected",
    "fluss-ver-type-",
    "fluss-ver-partitions-independent",
    "fluss-first-row-allow-rejected",
}

HERE = Path(__file__).parent / "conformance"
FILES = [HERE / f"{name}.json" for name in ("paimon", "placement", "fluss", "hudi")]
CASES = {case["id"]: case for file in FILES for case in load_cases(file)}
COLLECTED = [case_id for case_id in CASES if case_id.startswith(tuple(AVAILABLE))]
VARIANTS = {
    "plain": Variant(),
    "compacted": Variant(compact_every_commit=True),
    "get": Variant(via_get=True),
    "compacted-get": Variant(compact_every_commit=True, via_get=True),
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
@pytest.mark.parametrize("case_id", COLLECTED)
def test_case(case_id, variant):
    run_case(CASES[case_id], variant)


@pytest.mark.parametrize("prefix", sorted(AVAILABLE))
def test_every_entry_of_the_list_names_a_case(prefix):
    assert any(case_id.startswith(prefix) for case_id in COLLECTED)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
@pytest.mark.parametrize(
    "step",
    [
        {"expect_rows": [[1, "a"]]},
        {"expect_rows": []},
        {"expect_rows": [[1, "b"], [2, None]]},
        {"expect_changelog": [["+I", [1, "a"]]]},
        {"write_error": [["+I", [3, "c"]]]},
    ],
)
def test_the_runner_sees_a_wrong_answer(step, variant):
    case = CASES["dd-02-last-commit"]
    wrong = {**case, "steps": [{"write": [["+I", [1, "b"]]]}, step]}
    with pytest.raises(CaseFailed, match="dd-02-last-commit step 2"):
        run_case(wrong, variant)


def test_the_command_line_counts(capsys):
    assert main([str(FILES[0]), "-k", "dd-", "--compact-every-commit"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "12 passed, 0 not available, 0 FAILED"
