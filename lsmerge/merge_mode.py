"""The record merger's options, resolved once: which mode a table is in, whatever it was defined by.

A table may name its mode, a strategy id, a payload class, or only its ordering fields. `settle` turns any of these into
the same few canonical options, which are what a schema file stores; its result settles to itself. Options that say
different things are refused with both their names.

    payload -----> the mode it stands for, and what else the class did: ordering fields, delete marker, partial mode
    strategy id -> the mode of that id; any id that is not built in is custom
    neither -----> the mode given, else event time where there are ordering fields, else commit time
"""

from collections.abc import Mapping
from dataclasses import dataclass

from lsmerge.errors import InvalidOptionError

COMMIT_TIME = "commit-time-ordering"
EVENT_TIME = "event-time-ordering"
CUSTOM = "custom"

IGNORE_DEFAULTS = "ignore-defaults"
FILL_UNAVAILABLE = "fill-unavailable"

_PREFIX = "record.merge."
MODE = "record.merge.mode"
ORDERING = "record.merge.ordering-fields"
STRATEGY = "record.merge.strategy-id"
IMPLEMENTATIONS = "record.merge.implementations"
PAYLOAD = "record.merge.payload"
PARTIAL = "record.merge.partial-mode"
UNAVAILABLE = "record.merge.unavailable-value"
DELETE_FIELD = "record.merge.delete-field"
# The column that marks deletes by its name, without an option.
DELETE_FLAG = "_hoodie_is_deleted"
DELETE_MARKER = "record.merge.delete-marker"
COMBINE = "record.merge.combine-before-upsert"

_PAYLOAD_STRATEGY = "00000000-0000-0000-0000-000000000000"
_STRATEGIES = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": EVENT_TIME,
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": COMMIT_TIME,
}


@dataclass(frozen=True, slots=True)
class Payload:
    """A payload class that is built in. `implied` is the mode its name alone says, `settings` what the class did."""

    path: str
    implied: str
    settings: Mapping[str, str]

    @property
    def mode(self) -> str:
        return self.settings[MODE]


def _marked_by(field: str, marker: str) -> dict[str, str]:
    return {DELETE_FIELD: field, DELETE_MARKER: marker}


_MODEL = "org.apache.hudi.common.model."
_DEBEZIUM = _marked_by("_change_operation_type", "d")
PAYLOADS: Mapping[str, Payload] = {
    payload.path.rpartition(".")[2]: payload
    for payload in (
        Payload(f"{_MODEL}OverwriteWithLatestAvroPayload", COMMIT_TIME, {MODE: COMMIT_TIME}),
        Payload(f"{_MODEL}DefaultHoodieRecordPayload", EVENT_TIME, {MODE: EVENT_TIME}),
        Payload(f"{_MODEL}EventTimeAvroPayload", EVENT_TIME, {MODE: EVENT_TIME}),
        Payload(
            f"{_MODEL}OverwriteNonDefaultsWithLatestAvroPayload",
            CUSTOM,
            {MODE: COMMIT_TIME, PARTIAL: IGNORE_DEFAULTS},
        ),
        Payload(
            f"{_MODEL}PartialUpdateAvroPayload",
            CUSTOM,
            {MODE: EVENT_TIME, PARTIAL: IGNORE_DEFAULTS},
        ),
        Payload(f"{_MODEL}AWSDmsAvroPayload", CUSTOM, {MODE: COMMIT_TIME, **_marked_by("Op", "D")}),
        Payload(
            f"{_MODEL}debezium.MySqlDebeziumAvroPayload",
            CUSTOM,
            {MODE: EVENT_TIME, ORDERING: "_event_bin_file,_event_pos", **_DEBEZIUM},
        ),
        Payload(
            f"{_MODEL}debezium.PostgresDebeziumAvroPayload",
            CUSTOM,
            {
                MODE: EVENT_TIME,
                ORDERING: "_event_lsn",
                PARTIAL: FILL_UNAVAILABLE,
                UNAVAILABLE: "__debezium_unavailable_value",
                **_DEBEZIUM,
            },
        ),
    )
}


def settle(options: Mapping[str, str], spelled_as: Mapping[str, str]) -> dict[str, str]:
    """Options by canonical name, those of the record merger settled; a table without them has none.

    `spelled_as` says how the user named each of them: for messages, and because a table defined in Hudi's words gets
    Hudi's defaults.
    """
    if not any(name.startswith(_PREFIX) for name in options):
        return dict(options)
    given = _Given(options, spelled_as)
    payload = _built_in(options.get(PAYLOAD))
    mode = _mode(given, payload)
    settings = {MODE: mode, **_kept(options, mode)}
    if payload is not None and mode == payload.mode:
        settings |= _of_payload(given, payload)
    _check_settings(given, settings)
    if _combines_by_default(settings, spelled_as):
        settings.setdefault(COMBINE, "true")
    others = {name: value for name, value in options.items() if not name.startswith(_PREFIX)}
    return {**others, **settings}


@dataclass(frozen=True, slots=True)
class _Given:
    """What the user gave, and in which words."""

    options: Mapping[str, str]
    spelled_as: Mapping[str, str]

    def __contains__(self, name: str) -> bool:
        return name in self.options

    def shown(self, name: str) -> str:
        return f"option {self.spelled_as.get(name, name)!r} = {self.options[name]!r}"

    def contradiction(self, name: str, other: str, because: str) -> InvalidOptionError:
        return InvalidOptionError(
            f"{self.shown(name)} contradicts {self.shown(other)}: {because}; leave one of them out"
        )


def _built_in(payload: str | None) -> Payload | None:
    """The payload class of that name, with or without its package; None for any other class."""
    if payload is None:
        return None
    found = PAYLOADS.get(payload.rpartition(".")[2])
    return found if found is not None and payload in (found.path, _simple(found)) else None


def _simple(payload: Payload) -> str:
    return payload.path.rpartition(".")[2]


# ------------------------------------------------------------------------------------------ the mode


def _mode(given: _Given, payload: Payload | None) -> str:
    options = given.options
    strategy = _strategy_mode(options.get(STRATEGY))
    if PAYLOAD in given and strategy in (EVENT_TIME, COMMIT_TIME):
        implied = CUSTOM if payload is None else payload.implied
        if implied != strategy:
            because = f"the payload means {implied}, the strategy {strategy}"
            raise given.contradiction(PAYLOAD, STRATEGY, because)
    if payload is not None and (strategy != CUSTOM or _is_payload_strategy(options)):
        return _agreed(given, PAYLOAD, payload.mode, {payload.mode, payload.implied})
    if strategy is not None:
        return _agreed(given, STRATEGY, strategy, {strategy})
    if PAYLOAD in given:
        return _agreed(given, PAYLOAD, CUSTOM, {CUSTOM})
    return options.get(MODE) or (EVENT_TIME if ORDERING in given else COMMIT_TIME)


def _strategy_mode(strategy: str | None) -> str | None:
    return None if strategy is None else _STRATEGIES.get(strategy.lower(), CUSTOM)


def _is_payload_strategy(options: Mapping[str, str]) -> bool:
    return options.get(STRATEGY) == _PAYLOAD_STRATEGY


def _agreed(given: _Given, source: str, mode: str, accepted: set[str]) -> str:
    """The mode that a strategy or payload means, unless the one given is another."""
    if given.options.get(MODE, mode) not in accepted:
        raise given.contradiction(MODE, source, f"that means {mode}")
    return mode


# -------------------------------------------------------------------------------------- the settings


def _kept(options: Mapping[str, str], mode: str) -> dict[str, str]:
    """What stays as it was given: how a mode was named is forgotten once it is known."""
    names = [ORDERING, PARTIAL, UNAVAILABLE, DELETE_FIELD, DELETE_MARKER, COMBINE, IMPLEMENTATIONS]
    names += [STRATEGY, PAYLOAD] if mode == CUSTOM else []
    return {name: options[name] for name in names if name in options}


def _of_payload(given: _Given, payload: Payload) -> Mapping[str, str]:
    """What the class did, where the user says nothing else; ordering fields it always chose itself."""
    for name, value in payload.settings.items():
        if name not in (MODE, ORDERING) and given.options.get(name, value) != value:
            raise given.contradiction(name, PAYLOAD, f"that means {value!r}")
    return payload.settings


def _check_settings(given: _Given, settings: Mapping[str, str]) -> None:
    _check_other_engines(given, settings[MODE])
    _check_pair(settings, DELETE_FIELD, DELETE_MARKER)
    mode, partial = settings[MODE], settings.get(PARTIAL)
    if mode == CUSTOM:
        _check_custom(given)
    elif IMPLEMENTATIONS in given:
        raise InvalidOptionError(
            f"{given.shown(IMPLEMENTATIONS)}: the table's {MODE} is {mode!r}, which has its own merger; "
            f"leave it out, or set {MODE}={CUSTOM}"
        )
    if partial == FILL_UNAVAILABLE and UNAVAILABLE not in settings:
        raise InvalidOptionError(f"option {PARTIAL!r} = {partial!r} needs {UNAVAILABLE!r}")
    if partial != FILL_UNAVAILABLE and UNAVAILABLE in given:
        raise InvalidOptionError(
            f"{given.shown(UNAVAILABLE)} is only for {PARTIAL}={FILL_UNAVAILABLE}; set that, or leave it out"
        )


def _check_other_engines(given: _Given, mode: str) -> None:
    first = next(name for name in given.options if name.startswith(_PREFIX))
    for name, harmless in _OF_OTHERS.items():
        if mode == CUSTOM and name in _OF_ARRIVAL:
            continue  # a merger is handed rows in any order that the table asks for
        if given.options.get(name, harmless) != harmless:
            because = "the record merger orders and merges rows itself"
            raise given.contradiction(name, first, because)


# Options that choose or order otherwise, and the value that changes nothing.
_OF_OTHERS = {
    "merge-engine": "deduplicate",
    "sequence.field": None,
    "sequence.field.sort-order": "ascending",
    "merge-engine.versioned.ver-column": None,
}
_OF_ARRIVAL = ("sequence.field", "sequence.field.sort-order")


def _check_pair(settings: Mapping[str, str], name: str, other: str) -> None:
    for have, lack in ((name, other), (other, name)):
        if have in settings and lack not in settings:
            raise InvalidOptionError(f"option {have!r} = {settings[have]!r} needs {lack!r} as well")


def _check_custom(given: _Given) -> None:
    if _is_payload_strategy(given.options) and PAYLOAD not in given:
        raise InvalidOptionError(f"{given.shown(STRATEGY)} needs {PAYLOAD!r}")
    if not any(name in given for name in (STRATEGY, IMPLEMENTATIONS, PAYLOAD)):
        raise InvalidOptionError(
            f"{given.shown(MODE)} needs a merger: give {STRATEGY!r} or {IMPLEMENTATIONS!r}"
        )
    if PARTIAL in given:
        raise InvalidOptionError(
            f"{given.shown(PARTIAL)} contradicts {MODE}={CUSTOM}: the merger decides what it fills in; "
            "leave one of them out"
        )


def _combines_by_default(settings: Mapping[str, str], spelled_as: Mapping[str, str]) -> bool:
    """Hudi combines the rows of a commit with each other first. Only partial updates by event time can tell."""
    in_hudis_words = any(
        name.startswith(_PREFIX) and spelled != name for name, spelled in spelled_as.items()
    )
    return in_hudis_words and PARTIAL in settings and settings[MODE] == EVENT_TIME
