"""The changelog that commits and compactions leave behind, by producer.

none              nothing: a reader of changes gets what each commit wrote
input             the rows of a commit, unmerged, written beside the runs they go into
lookup            the old and new values of the keys that a commit touched, as it is committed
full-compaction   the old and new values of the keys written since the last full compaction
"""

from collections.abc import Sequence
from concurrent.futures import wait
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from lsmerge.engine.changelog_file import ChangelogName, write_changelog
from lsmerge.engine.context import TableContext
from lsmerge.engine.difference import BucketStates, changed_rows
from lsmerge.engine.look_ahead import Compared, LookAhead, Told, base_files
from lsmerge.engine.matching import cached_block
from lsmerge.engine.parallel import ordered_map
from lsmerge.engine.run_output import discard
from lsmerge.env import CORES
from lsmerge.errors import LsmergeError
from lsmerge.meta.commit import with_bases
from lsmerge.meta.data_file import BucketId, DataFile, Edit
from lsmerge.meta.snapshot import Snapshot
from lsmerge.meta.version import SortedRun, sorted_runs

# Where a row that loses leaves no trace: their changelog has nothing but real changes.
ENGINES_THAT_KEEP_ROWS = ("first-row", "versioned")


def compared_columns(context: TableContext) -> tuple[str, ...] | None:
    """The columns whose equality makes an update too little to tell; None where all updates are told."""
    options = context.options
    drops_equal = options.changelog_producer_row_deduplicate
    if not drops_equal and options.merge_engine not in ENGINES_THAT_KEEP_ROWS:
        return None
    ignored = options.changelog_producer_row_deduplicate_ignore_fields
    key = context.schema.primary_key
    return tuple(n for n in context.schema.column_names if n not in ignored and n not in key)


def changelog_of_compaction(
    context: TableContext, place: BucketId, runs: Sequence[SortedRun], level: int
) -> tuple[DataFile, ...]:
    """What a compaction of these runs into a level tells: with full-compaction, what it changes in the top level."""
    top_level = context.options.num_levels - 1
    if context.options.changelog_producer != "full-compaction" or level != top_level:
        return ()
    top = [run for run in runs if run.level == top_level]
    newer = [run for run in runs if run.level < top_level]
    states = BucketStates([file for run in top for file in run.files], [], newer, adds_newer=True)
    rows = changed_rows(context, states, compared_columns(context))
    return write_changelog(context, place, top_level, ChangelogName(context.env.new_id()), rows)


class _Job(NamedTuple):
    """One bucket's part of a commit: the files that are there, and the runs that come."""

    place: BucketId
    base: tuple[DataFile, ...]
    runs: list[SortedRun]

    @property
    def compared(self) -> Compared:
        """What is looked at: while it is the same, so is the outcome."""
        return Compared.of(self.base, (file for run in self.runs for file in run.files))


class LookupChangelog:
    """The changelog of one commit, which depends on the snapshot that the commit lands on.

    Small ones are made ahead, while the runs are written. Buckets that others changed meanwhile, or before a lost race,
    are looked up again, and no others. What other processes told of their own runs is taken where it holds still: no
    key has rows in the runs of two of them.
    """

    def __init__(self, context: TableContext, told_by_others: Sequence[Told] = ()) -> None:
        self._context = context
        self._told_by_others = told_by_others
        self._told: dict[BucketId, Told] = {}

    def added_to(self, edit: Edit, latest: Snapshot | None) -> Edit:
        """The edit with its changelog, as it must be after `latest`."""
        runs, _ = with_bases(edit.add, latest)
        by_place: dict[BucketId, list[DataFile]] = {}
        for run in runs:
            by_place.setdefault(run.place, []).append(run)
        places = list(by_place)
        base = base_files(self._context, latest, places)
        jobs = [_Job(place, base[place], sorted_runs(by_place[place])) for place in places]
        taken = self._taken(jobs)
        own = [job for job in jobs if job.place not in taken]
        stale = [job for job in own if not self._is_told(job)]
        left = self._told.keys() - {job.place for job in own}
        self._forget([*left, *(job.place for job in stale)])
        self._make_all(stale)
        files = taken | {place: told.files for place, told in self._told.items()}
        changelog = [file for place in places for file in files[place]]
        return replace(edit, add=(*edit.add, *changelog), has_compared=True)

    def ahead(self, places: Sequence[BucketId]) -> LookAhead:
        """For buckets whose only runs are about to be written."""
        return LookAhead(self._context, places, compared_columns(self._context), self._note)

    def settle(self) -> None:
        """Wait until all that was made is durable."""
        for told in self._told.values():
            told.settle()

    def wait(self) -> None:
        """Let no thread go on writing: whatever ended the commit, Ctrl-C too, nothing of it outlives the call."""
        wait([told.synced for told in self._told.values() if told.synced is not None])

    def made(self) -> list[Told]:
        """What was made last, durably, for another process to take over."""
        self.settle()
        return list(self._told.values())

    def _taken(self, jobs: Sequence[_Job]) -> dict[BucketId, tuple[DataFile, ...]]:
        """The changelog that others made of buckets of which they saw all that there is to see."""
        by_place: dict[BucketId, list[Told]] = {}
        for told in self._told_by_others:
            by_place.setdefault(told.place, []).append(told)
        return {
            job.place: tuple(file for told in by_place[job.place] for file in told.files)
            for job in jobs
            if _seen_by(by_place.get(job.place, [])) == {job.compared}
        }

    def discard(self) -> None:
        """Delete what was made: the commit did not happen."""
        self._forget(list(self._told))

    def _is_told(self, job: _Job) -> bool:
        return job.place in self._told and self._told[job.place].compared == job.compared

    def _note(self, told: Told) -> None:
        self._told[told.place] = told

    def _make_all(self, jobs: Sequence[_Job]) -> None:
        share = self._context.sharing_budget(min(CORES, len(jobs)))
        uid, compared = self._context.env.new_id(), compared_columns(share)

        def make(numbered: tuple[int, _Job]) -> None:
            number, job = numbered
            states = BucketStates(job.base, [], job.runs, adds_newer=True)
            # The next commit looks its keys up in the blocks of this one, so the cache keeps them.
            rows = changed_rows(share, states, compared, cached_block)
            # Noted here, on the worker's thread: if another bucket fails, this one's files are known.
            name = ChangelogName(uid, number)
            files = write_changelog(share, job.place, 0, name, rows)
            self._note(Told(job.place, job.compared, files))

        for _ in ordered_map(make, enumerate(jobs)):
            pass

    def _forget(self, places: Sequence[BucketId]) -> None:
        for place in places:
            told = self._told.get(place)
            if told is not None:
                with suppress(LsmergeError):  # then there is nothing to delete
                    told.settle()
                # Only now: what Ctrl-C ends the wait for is still to be waited for.
                del self._told[place]
                discard(self._context, told.files)


def _seen_by(told: Sequence[Told]) -> set[Compared]:
    """What several processes compared: all their runs, on top of the files that each of them saw."""
    runs = frozenset(name for part in told for name in part.compared.runs)
    return {Compared(part.compared.base, runs) for part in told}
