"""Windows over blocks: every key falls into one window, with all blocks that may hold it."""

from hypothesis import given
from hypothesis import strategies as st

from lsmerge.engine.sections import Block, KeyRange, KeySpan, cut_into_windows

keys = st.integers(0, 12)


def key(number):
    return bytes([number])


def block(number, first, last, rows=1):
    return Block(0, None, number, key(first), key(last), rows, 0)


def holds(window, wanted):
    after, upto = window.span
    return (after is None or wanted > after) and (upto is None or wanted <= upto)


@given(
    st.lists(st.tuples(keys, keys, st.integers(1, 5)), max_size=8),
    st.integers(1, 8),
    st.one_of(st.none(), keys),
    st.one_of(st.none(), keys),
)
def test_a_window_has_every_block_of_its_keys(drawn, target_rows, after, upto):
    blocks = [block(n, min(a, b), max(a, b), rows) for n, (a, b, rows) in enumerate(drawn)]
    span = KeySpan(None if after is None else key(after), None if upto is None else key(upto))
    windows = cut_into_windows(blocks, target_rows, span)
    for wanted in map(key, range(13)):
        having = {b.number for b in blocks if b.first_key <= wanted <= b.last_key}
        is_asked = (after is None or wanted > key(after)) and (upto is None or wanted <= key(upto))
        if not having or not is_asked:
            continue
        found = [window for window in windows if holds(window, wanted)]
        assert len(found) == 1
        assert having <= {b.number for b in found[0].blocks}


def test_a_block_that_begins_at_the_cut_is_in_the_window_before_it():
    first, *_ = cut_into_windows([block(0, 1, 5), block(1, 5, 9)], target_rows=1)
    assert [b.number for b in first.blocks] == [0, 1]


def test_a_range_touches_what_shares_a_key_with_it():
    wanted = KeyRange(key(3), key(6))
    assert wanted.touches(key(1), key(3))
    assert wanted.touches(key(5), key(9))
    assert not wanted.touches(key(0), key(2))
    assert not wanted.touches(key(6), key(9)), "its end is not part of it"
    assert KeyRange().touches(key(0), key(0))
