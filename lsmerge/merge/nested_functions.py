"""Column functions of arrays and maps.

Results are chosen, not built: a fold says which of the elements at hand make up a list, and Arrow moves them. Plain
`collect` needs no choice, so it is offset arithmetic alone.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise

import pyarrow as pa

from lsmerge.field_options import FieldOptions
from lsmerge.merge.comparable import comparable, order_of
from lsmerge.merge.flags import as_booleans, as_flags
from lsmerge.merge.group_fold import Fold, fold_groups, group_starts
from lsmerge.merge.grouped_column import GroupedColumn
from lsmerge.merge.groups import take_rows
from lsmerge.merge.list_layout import (
    list_array,
    lists_of,
    lists_with,
    longer_than,
    row_fields,
    with_duplicates,
)
from lsmerge_native.reduce import all_rows
from lsmerge_native.regroup import any_in_group

# The elements of a list by what makes them the same, in the order of the list.
State = dict[Hashable, int]


class Elements:
    """How the elements of some lists are combined; this one appends them. Elements are known by number."""

    def __init__(self, elements: pa.Array, options: FieldOptions) -> None:
        self.elements = elements
        self.options = options
        self.values: list[Hashable] = comparable(elements)

    def add(self, state: State, element: int) -> None:
        """Add an element to a list."""
        state[element] = element

    def retract(self, state: State, elements: Iterable[int]) -> None:
        """Take elements back: of each the first that is equal."""
        pending = Counter(self.values[i] for i in elements)
        for element in list(state.values()):
            if pending[self.values[element]] > 0:
                pending[self.values[element]] -= 1
                del state[element]

    def chosen(self, elements: Sequence[int]) -> pa.Array:
        """The elements of all lists, one list after the other."""
        return self.elements.take(pa.array(elements, pa.int64()))


class Keyed(Elements):
    """Elements of which one of each key remains."""

    def key(self, element: int) -> Hashable:
        """What makes two elements the same."""
        return self.values[element]

    def add(self, state: State, element: int) -> None:
        state.setdefault(self.key(element), element)

    def retract(self, state: State, elements: Iterable[int]) -> None:
        for element in elements:
            state.pop(self.key(element), None)


class Entries(Keyed):
    """Map entries: the newest of a key wins, at the place of the oldest."""

    def __init__(self, elements: pa.Array, options: FieldOptions) -> None:
        super().__init__(elements, options)
        self.keys: list[Hashable] = comparable(elements.field(0))

    def key(self, element: int) -> Hashable:
        return self.keys[element]

    def add(self, state: State, element: int) -> None:
        state[self.key(element)] = element


class TimedEntries(Entries):
    """Map entries that hold their time: the latest of a key wins, an entry without value removes the key."""

    def __init__(self, elements: pa.Array, options: FieldOptions) -> None:
        super().__init__(elements, options)
        self.missing = elements.field(1).is_null().to_pylist()
        self.times = comparable(_entry_times(elements, options))

    def add(self, state: State, element: int) -> None:
        key, time = self.key(element), self.times[element]
        if self.missing[element]:
            state.pop(key, None)
        elif time is not None and (key not in state or self._is_later(element, state[key])):
            state[key] = element

    def _is_later(self, element: int, other: int) -> bool:
        return order_of(self.times[element]) > order_of(self.times[other])


class Rows(Elements):
    """Rows without a key: appended up to a limit; taking a row back takes all that are equal."""

    def add(self, state: State, element: int) -> None:
        limit = self.options.count_limit
        if self.values[element] is not None and (limit is None or len(state) < limit):
            state[element] = element

    def retract(self, state: State, elements: Iterable[int]) -> None:
        gone = {self.values[i] for i in elements}
        for element in [i for i in state.values() if self.values[i] in gone]:
            del state[element]


class KeyedRows(Keyed):
    """Rows with a key: the newest wins, by its sequence if there is one, at the place of the oldest."""

    def __init__(self, elements: pa.Array, options: FieldOptions) -> None:
        super().__init__(elements, options)
        keys = (comparable(field) for field in row_fields(elements, options.nested_key))
        self.keys = list(zip(*keys, strict=True))
        orders = (comparable(field) for field in row_fields(elements, options.nested_sequence))
        self.orders = [
            [order_of(value) for value in values] for values in zip(*orders, strict=True)
        ]

    def key(self, element: int) -> Hashable:
        return self.keys[element]

    def add(self, state: State, element: int) -> None:
        key = self.key(element)
        if not self.counts(element):
            return
        if key in state:
            if not self._is_older(element, state[key]):
                state[key] = element
        elif self.options.count_limit is None or len(state) < self.options.count_limit:
            state[key] = element

    def retract(self, state: State, elements: Iterable[int]) -> None:
        super().retract(state, filter(self.counts, elements))

    def counts(self, element: int) -> bool:
        """Whether an element takes part."""
        if self.options.nested_key_nulls == "ignore" and None in self.keys[element]:
            return False
        return self.values[element] is not None

    def _is_older(self, element: int, other: int) -> bool:
        return bool(self.orders) and self.orders[element] < self.orders[other]


class OverlaidRows(KeyedRows):
    """Rows with a key, of which each field keeps its newest value that is not null."""

    def __init__(self, elements: pa.Array, options: FieldOptions) -> None:
        super().__init__(elements, options)
        self.fields: list[pa.Array] = elements.flatten()
        self.is_valid = [field.is_valid().to_pylist() for field in self.fields]
        # A state refers to these: of each row the element that each field comes from.
        self.origins: list[list[int]] = []

    def add(self, state: State, element: int) -> None:
        if not self.counts(element):
            return
        number = state.setdefault(self.key(element), len(self.origins))
        if number == len(self.origins):
            self.origins.append([element] * len(self.fields))
            return
        for position, is_valid in enumerate(self.is_valid):
            if is_valid[element]:
                self.origins[number][position] = element

    def chosen(self, elements: Sequence[int]) -> pa.Array:
        picked = [self.origins[number] for number in elements]
        arrays = [
            field.take(pa.array([origins[position] for origins in picked], pa.int64()))
            for position, field in enumerate(self.fields)
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(self.elements.type))


# --------------------------------------------------------------------------------------- functions


def collect(column: GroupedColumn, options: FieldOptions) -> pa.Array:
    """All elements, or with `distinct` each once."""
    if options.distinct:
        return fold_groups(column, _fold(Keyed, options), lambda v: with_duplicates(v, [v.values]))
    if column.has_retracts:
        return fold_groups(column, _fold(Elements, options))
    return _concatenated(column)


def merge_map(column: GroupedColumn, options: FieldOptions) -> pa.Array:
    """All entries, the newest of each key."""
    return fold_groups(
        column, _fold(Entries, options), lambda v: with_duplicates(v, [v.values.field(0)])
    )


def merge_map_with_keytime(column: GroupedColumn, options: FieldOptions) -> pa.Array:
    """All entries, the latest of each key by the time it holds."""
    import pyarrow.compute as pc

    def is_odd(values: pa.Array) -> pa.Array:
        untimed = lists_with(values, _entry_times(values.values, options).is_null())
        return pc.or_(untimed, with_duplicates(values, [values.values.field(0)]))

    return fold_groups(column, _fold(TimedEntries, options), is_odd)


def nested_update(column: GroupedColumn, options: FieldOptions) -> pa.Array:
    """Rows inside the column, appended, or replaced by their key."""
    rules = KeyedRows if options.nested_key else Rows
    return fold_groups(column, _fold(rules, options), _odd_rows(options))


def nested_partial_update(column: GroupedColumn, options: FieldOptions) -> pa.Array:
    """Rows inside the column, of each key the newest value of each field that is not null."""
    return fold_groups(column, _fold(OverlaidRows, options), _odd_rows(options))


def null_keyed(values: pa.Array, options: FieldOptions) -> pa.Array:
    """For each array of rows whether one of them has a null in its key."""
    import pyarrow.compute as pc

    rows = values.values
    flags = pa.repeat(pa.scalar(False), len(rows))
    for field in row_fields(rows, options.nested_key):
        flags = pc.or_(flags, field.is_null())
    return lists_with(values, pc.and_(flags, rows.is_valid()))


def _concatenated(column: GroupedColumn) -> pa.Array:
    plan = column.plan
    rows = take_rows(column.arrays, all_rows(plan))
    has_value = any_in_group(plan, as_flags(rows.is_valid()))
    is_valid = as_booleans(has_value)
    offsets = rows.offsets.take(group_starts(plan))
    return list_array(column.type, offsets, is_valid, rows.values)


def _fold(rules_of: Callable[[pa.Array, FieldOptions], Elements], options: FieldOptions) -> Fold:
    def fold(values: pa.Array, starts: Sequence[int], taken_back: Sequence[int]) -> pa.Array:
        rules = rules_of(values.values, options)
        offsets = values.offsets.to_pylist()
        lengths: list[int | None] = []
        chosen: list[int] = []
        for start, stop in pairwise(starts):
            lists = [range(offsets[row], offsets[row + 1]) for row in range(start, stop)]
            state = _fold_group(rules, lists, taken_back[start:stop])
            lengths.append(None if state is None else len(state))
            chosen.extend(() if state is None else state.values())
        return lists_of(values.type, lengths, rules.chosen(chosen))

    return fold


def _fold_group(rules: Elements, lists: Sequence[range], taken_back: Sequence[int]) -> State | None:
    """None until a list was added: nothing can be taken back from nothing."""
    state: State | None = None
    for elements, is_retract in zip(lists, taken_back, strict=True):
        if not is_retract:
            state = {} if state is None else state
            for element in elements:
                rules.add(state, element)
        elif state is not None:
            rules.retract(state, elements)
    return state


def _odd_rows(options: FieldOptions) -> Callable[[pa.Array], pa.Array]:
    import pyarrow.compute as pc

    def is_odd(values: pa.Array) -> pa.Array:
        odd = lists_with(values, values.values.is_null())
        if options.count_limit is not None:
            odd = pc.or_(odd, longer_than(values, options.count_limit))
        if options.nested_key_nulls == "ignore":
            odd = pc.or_(odd, null_keyed(values, options))
        if options.nested_key:
            keys = row_fields(values.values, options.nested_key)
            odd = pc.or_(odd, with_duplicates(values, keys))
        return odd

    return is_odd


def _entry_times(entries: pa.Array, options: FieldOptions) -> pa.Array:
    """The time of each map entry, by default the last field of its value; null where there is no value."""
    values = entries.field(1)
    return row_fields(values, [options.ts_field or values.type.names[-1]])[0]
