"""Every trace gives the output accepted for it; `pytest --rewrite` accepts the present one."""

from pathlib import Path

import pytest

from tests.trace_runner import Step, TraceRunner, parse_trace, render_trace

TRACES = sorted((Path(__file__).parent / "traces").glob("*.trace"))


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.stem)
def test_trace(path, memory_uri, request):
    accepted = path.read_text(encoding="utf-8")
    steps = parse_trace(accepted)
    runner = TraceRunner(memory_uri)
    present = render_trace(steps, [runner.run(step) for step in steps])
    if request.config.getoption("--rewrite"):
        path.write_text(present, encoding="utf-8")
    else:
        assert present == accepted


def test_a_trace_is_read_and_written_alike():
    text = "# a remark\nscan limit=1\n----\n1 a\n2 b\n\nwrite\n+I 1 ~\n----\nsnapshot 1 append\n"
    steps = parse_trace(text)
    assert steps[0] == Step(1, ["# a remark"], "scan limit=1", [], ["1 a", "2 b"])
    assert steps[1] == Step(7, [], "write", ["+I 1 ~"], ["snapshot 1 append"])
    assert render_trace(steps, [step.output for step in steps]) == text


def test_a_step_without_output_line_is_refused():
    with pytest.raises(ValueError, match="line 1"):
        parse_trace("scan\n1 a\n")
