"""Which buckets of all partitions may hold a key: hash indexes joined in few maps.

Indexes are made of immutable *pieces* (an index file, or the hashes that a writer has placed in a bucket). A *layer*
joins the hashes of some pieces, so that a hash costs one probe a layer and not one a piece. Pieces come and go with
commits: new ones make a new layer, which takes in smaller layers, and a layer of which most is gone is made anew.
Invariant: each living piece is in one layer; hashes of pieces that are gone are passed over.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

from lsmerge.engine.hash_index import HashIndex, buffer_of, foldable
from lsmerge.meta.data_file import BucketId, Partition
from lsmerge_native.hash_map import HashMap, hash_map

# Making a layer takes about 26 bytes a hash. Larger ones would save probes, at 100 ns each.
LAYER_HASHES = 2_000_000
LAYER_SETS = 65_536


class Piece(NamedTuple):
    """A part of a partition's index that comes and goes as a whole."""

    key: Hashable
    partition: Partition
    num_hashes: int


class Source(NamedTuple):
    """A set of hashes in a layer: what it is of, and where keys with these hashes are."""

    piece: Piece
    place: BucketId


class Layer(Protocol):
    """Hashes of some pieces in one map."""

    @property
    def sources(self) -> Sequence[Source]:
        """What the numbers of sets in the map mean."""

    def map(self) -> HashMap:
        """The map, from wherever it is kept."""

    def discard(self) -> None:
        """Give back what it takes outside memory."""


@dataclass(frozen=True, slots=True)
class MemoryLayer:
    """A layer that is gone with its user."""

    sources: Sequence[Source]
    content: HashMap

    def map(self) -> HashMap:
        return self.content

    def discard(self) -> None:
        """Nothing but memory."""


Load = Callable[[Piece], HashIndex]
Keep = Callable[[Sequence[Source], HashMap], Layer]


def followed(
    layers: Sequence[Layer],
    living: Collection[Hashable],
    come: Iterable[Piece],
    load: Load,
    keep: Keep = MemoryLayer,
) -> Iterator[Layer]:
    """Layers of exactly the living pieces, of which those that `come` are in none of `layers`."""
    pieces = list(come)
    kept: list[tuple[int, Layer]] = []
    for layer in layers:
        left = [piece for piece in _pieces(layer) if piece.key in living]
        size = _size(left)
        if 2 * size >= _size(_pieces(layer)):
            kept.append((size, layer))
        else:
            pieces += left
            layer.discard()
    yield from _joined(kept, pieces, living, load, keep)


def _joined(
    kept: list[tuple[int, Layer]],
    pieces: list[Piece],
    living: Collection[Hashable],
    load: Load,
    keep: Keep,
) -> Iterator[Layer]:
    """The layers kept, and the pieces in new ones together with smaller layers."""
    kept.sort(key=lambda item: item[0])
    small = [size for size, _ in kept if 2 * size <= LAYER_HASHES]
    count = foldable(small, _size(pieces)) if pieces else 0
    for _, layer in kept[:count]:
        pieces += [piece for piece in _pieces(layer) if piece.key in living]
        layer.discard()
    yield from (layer for _, layer in kept[count:])
    yield from _made(pieces, load, keep)


def _made(pieces: Iterable[Piece], load: Load, keep: Keep) -> Iterator[Layer]:
    """Layers of pieces, as large as they may be."""
    sources: list[Source] = []
    sets: list[pa.Buffer] = []
    held = 0
    for piece in pieces:
        index = load(piece)
        if sources and (
            held + len(index) > LAYER_HASHES or len(sources) + len(index.sets) > LAYER_SETS
        ):
            yield keep(sources, hash_map(sets))
            sources, sets, held = [], [], 0
        for bucket, hashes in index.sets:
            sources.append(Source(piece, BucketId(piece.partition, bucket)))
            sets.append(hashes.hashes())
            held += len(hashes)
    if sources:
        yield keep(sources, hash_map(sets))


def _size(pieces: Iterable[Piece]) -> int:
    return sum(piece.num_hashes for piece in pieces)


def _pieces(layer: Layer) -> Iterable[Piece]:
    return {source.piece.key: source.piece for source in layer.sources}.values()


class LivingLayers:
    """Layers beside what of them counts at one version. Immutable."""

    def __init__(self, layers: Iterable[Layer], living: Collection[Hashable]) -> None:
        self._layers = [(layer, _places(layer, living)) for layer in layers]

    def find(self, hashes: pa.Array) -> dict[BucketId, list[pa.Array]]:
        """The buckets that may hold keys with these hashes, and the numbers of those that each may hold."""
        found: dict[BucketId, list[pa.Array]] = {}
        for layer, places in self._layers:
            rows, sets = layer.map().find(buffer_of(hashes))
            for number, members in _by_set(pa.py_buffer(rows), pa.py_buffer(sets)):
                place = places[number]
                if place is not None:
                    found.setdefault(place, []).append(members)
        return found


def _places(layer: Layer, living: Collection[Hashable]) -> list[BucketId | None]:
    return [place if piece.key in living else None for piece, place in layer.sources]


def _by_set(rows: pa.Buffer, sets: pa.Buffer) -> Iterator[tuple[int, pa.Array]]:
    """The rows of each set."""
    import pyarrow.compute as pc

    count = rows.size // 4
    if count == 0:
        return
    numbers = pa.Array.from_buffers(pa.uint16(), count, [None, sets])
    order = pc.array_sort_indices(numbers)
    ordered = pa.Array.from_buffers(pa.uint32(), count, [None, rows]).take(order)
    start = 0
    for entry in pc.value_counts(numbers.take(order)).to_pylist():
        yield entry["values"], ordered.slice(start, entry["counts"])
        start += entry["counts"]
