"""Data sources that fail where real ones may: importable by Spark's processes under the names given here."""

import contextlib
import os
import signal

from pyspark import TaskContext
from pyspark.sql.types import StructType

from lsmerge.spark import LsmergeDataSource, stream_write
from lsmerge.spark.write import LsmergeWriter, TaskMessage, writer

# Where attempts meet: a pipe beside the table, under its name and this one.
MEETING = "meeting"
# When a driver dies: `before 3`, or `after 3`, the commit of that micro-batch.
DRIVER_DIES = "LSMERGE_TEST_DRIVER_DIES"


def fails_now() -> bool:
    """In the first attempt of one task."""
    context = TaskContext.get()
    return context.partitionId() == 1 and context.attemptNumber() == 0


class FailingSource(LsmergeDataSource):
    """A source whose writer is one of those below."""

    writer_class: type[LsmergeWriter]

    def writer(self, schema: StructType, overwrite: bool):
        made = writer(self.options, schema, overwrite=overwrite)
        return self.writer_class(made._target, made._identity)


class RetriedWriter(LsmergeWriter):
    """A task fails once, when its rows are on their way."""

    def write(self, iterator) -> TaskMessage:
        return super().write(self._broken(iterator) if fails_now() else iterator)

    def _broken(self, iterator):
        yield from iterator
        raise ConnectionError("try again")


class HopelessWriter(RetriedWriter):
    """One task fails whenever it is tried."""

    def write(self, iterator) -> TaskMessage:
        is_bad = TaskContext.get().partitionId() == 2
        return LsmergeWriter.write(self, self._broken(iterator) if is_bad else iterator)


class KilledWriter(LsmergeWriter):
    """The process of a task is killed when its rows are written, before anybody knows."""

    def write(self, iterator) -> TaskMessage:
        message = super().write(iterator)
        if fails_now():
            os.kill(os.getpid(), signal.SIGKILL)
        return message


class ExecutorKiller(LsmergeWriter):
    """So is the executor, which is the parent of the parent of a task's process."""

    def write(self, iterator) -> TaskMessage:
        message = super().write(iterator)
        if fails_now():
            with open(f"/proc/{os.getppid()}/stat") as stat:
                executor = int(stat.read().rpartition(")")[2].split()[1])
            os.kill(executor, signal.SIGKILL)
        return message


class SpeculatedWriter(LsmergeWriter):
    """Two attempts of a task meet when both have written their rows, so Spark must have started the second one while
    the first was running, and either may be the one that counts.
    """

    def write(self, iterator) -> TaskMessage:
        message = super().write(iterator)
        context = TaskContext.get()
        if context.partitionId() == 1:
            # Either end of a pipe opens when the other one does.
            end = os.O_RDONLY if context.attemptNumber() == 0 else os.O_WRONLY
            os.close(os.open(f"{self._target.uri}.{MEETING}", end))
        return message


class UnansweredWriter(LsmergeWriter):
    """The commit is published, and the answer is lost."""

    def commit(self, messages) -> None:
        super().commit(messages)
        raise ConnectionError("the answer was lost")


class RefusedWriter(LsmergeWriter):
    """The commit fails before anything is published."""

    def commit(self, messages) -> None:
        raise ConnectionError("no connection")


class DriverKiller(stream_write.LsmergeStreamWriter):
    """The driver is killed, with all that it started: the table may know of a batch that no checkpoint does."""

    def commit(self, messages, batchId: int) -> None:  # noqa: N803 - Spark's name
        dies = os.environ.get(DRIVER_DIES)
        if dies == f"before {batchId}":
            kill_session()
        super().commit(messages, batchId)
        if dies == f"after {batchId}":
            kill_session()


def kill_session() -> None:
    """Every process of this session, this one last."""
    own, session = os.getpid(), os.getsid(0)
    for name in os.listdir("/proc"):
        with contextlib.suppress(ValueError, ProcessLookupError):
            if int(name) != own and os.getsid(int(name)) == session:
                os.kill(int(name), signal.SIGKILL)
    os.kill(own, signal.SIGKILL)


class DriverKilledSource(LsmergeDataSource):
    """A source of streams whose driver may die."""

    @classmethod
    def name(cls) -> str:
        return "driver_killed"

    def streamWriter(self, schema: StructType, overwrite: bool):  # noqa: N802 - Spark's name
        made = stream_write.writer(self.options, schema, overwrite=overwrite)
        return DriverKiller(made._target)


def source(name: str, writer_class: type[LsmergeWriter]) -> type[FailingSource]:
    return type(
        name, (FailingSource,), {"writer_class": writer_class, "name": classmethod(lambda _: name)}
    )


retried = source("retried", RetriedWriter)
hopeless = source("hopeless", HopelessWriter)
killed = source("killed", KilledWriter)
speculated = source("speculated", SpeculatedWriter)
executor_killed = source("executor_killed", ExecutorKiller)
unanswered = source("unanswered", UnansweredWriter)
refused = source("refused", RefusedWriter)
