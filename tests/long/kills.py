"""K1, K2: a process killed at every system call that touches the table, and at every failpoint; K9 after each.

Whatever the instant: the table opens without repair, shows the steps before or those and this one, is clean after a
vacuum, and takes the step again.
"""

from functools import partial
from pathlib import Path

from tests.long import tracing
from tests.long.figures import Tally
from tests.long.stages import Outcome, Stage, fresh, scratch, stages, start

OF_STORE = ("directory.", "file.", "run.", "changelog.", "index.")


def kill_at_syscalls(script: str, engine: str, every: int = 1, alike: int = 1) -> Tally:
    """Every n-th call of every step of a script; of calls between which no file changes, every `alike`-th of these."""
    tally = Tally()
    if not tracing.is_available():
        tally.skipped = "strace is not available"
        return tally
    with scratch() as root:
        number = 0
        for stage in stages(script, engine, root):
            for point, is_after_change in tracing.points(stage, root).items():
                number += 1
                if number % (every if is_after_change else every * alike) == 0:
                    tally.attempt((str(stage), point), partial(_killed, stage, point, root, tally))
            tally.notes["different states"] += len(stage.judged)
    return tally


def _killed(stage: Stage, point: tracing.Point, root: Path, tally: Tally) -> None:
    with fresh(stage, root) as uri:
        options = point.injecting("signal=KILL")
        outcome = tracing.attached(start(stage, uri), options, root / "calls")
        _judge(stage, uri, outcome, tally)


def _judge(stage: Stage, uri: str, outcome: Outcome, tally: Tally) -> None:
    if not outcome.was_killed and outcome.told != "done":
        raise AssertionError(f"{outcome}")
    tally.notes["killed"] += outcome.was_killed
    took_effect = stage.check(uri)
    if outcome.told == "done" and not took_effect:
        raise AssertionError("what was acknowledged is lost")
    tally.notes["in effect at the kill"] += took_effect and outcome.was_killed


def trigger(stage: Stage, what: str, root: Path, tally: Tally) -> None:
    """Kill, or fail, at one passing of a failpoint (`name:kill@k`), and judge what is left."""
    with fresh(stage, root) as uri:
        attempt = start(stage, uri, what)
        attempt.go()
        outcome = attempt.outcome()
        if ":kill" in what and not outcome.was_killed:
            raise AssertionError(f"not killed: {outcome}")
        if outcome.was_killed or outcome.told == "done":
            _judge(stage, uri, outcome, tally)
        elif str(outcome.told).startswith("refused"):
            stage.check(uri)
        else:
            raise AssertionError(f"{outcome}")


def kill_at_failpoints(
    script: str, engine: str, most: int, action: str = "kill", every: int = 1
) -> Tally:
    """Each failpoint of each step, at up to `most` of its passings: first, last, and between.

    An error is what a store may give; elsewhere nothing can fail but the process.
    """
    tally, number = Tally(), 0
    with scratch() as root:
        for stage in stages(script, engine, root):
            for name, times in stage.passed.items():
                if action == "error" and not name.startswith(OF_STORE):
                    continue
                for passing in _chosen(times, most):
                    number += 1
                    what = f"{name}:{action}@{passing}"
                    if number % every == 0:
                        check = partial(trigger, stage, what, root, tally)
                        tally.attempt((str(stage), what), check)
                        tally.places[name] += 1
            tally.notes["different states"] += len(stage.judged)
    return tally


def _chosen(times: int, most: int) -> list[int]:
    if times <= most:
        return list(range(1, times + 1))
    return sorted({1 + number * (times - 1) // max(1, most - 1) for number in range(most)})
