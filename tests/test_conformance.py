"""The conformance cases, every one of them, in every variant that must not change an answer."""

from pathlib import Path

import pytest

from tests.conformance.run import CaseFailed, Variant, load_cases, main, run_case

HERE = Path(__file__).parent / "conformance"
FILES = [HERE / f"{name}.json" for name in ("paimon", "placement", "fluss", "hudi")]
CASES = {case["id"]: case for file in FILES for case in load_cases(file)}
VARIANTS = {
    "plain": Variant(),
    "compacted": Variant(compact_every_commit=True),
}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=VARIANTS.keys())
@pytest.mark.parametrize("case_id", CASES)
def test_case(case_id, variant):
    run_case(CASES[case_id], variant)


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
