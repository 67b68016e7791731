"""The record merger's options: what they resolve to, and what is refused with which names."""

import pyarrow as pa
import pytest

import lsmerge
from lsmerge.errors import InvalidOptionError
from lsmerge.merge_mode import PAYLOADS
from lsmerge.options import resolve

EVENT_ID = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
COMMIT_ID = "ce9acb64-bde0-424c-9b91-f6ebba25356d"
PAYLOAD_ID = "00000000-0000-0000-0000-000000000000"
OTHER_ID = "0b9c7a54-6d1f-4f1c-9a3e-2f6f3a1f7c10"
MODEL = "org.apache.hudi.common.model."


def canonical(**settings: str) -> dict[str, str]:
    return {f"record.merge.{name.replace('_', '-')}": value for name, value in settings.items()}


COMMIT = canonical(mode="commit-time-ordering")
EVENT = canonical(mode="event-time-ordering", ordering_fields="ts")


@pytest.mark.parametrize(
    ("given", "resolved"),
    [
        ({"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}, COMMIT),
        ({"hoodie.record.merge.mode": "event_time_ordering", "precombine.field": "ts"}, EVENT),
        ({"hoodie.table.ordering.fields": "ts"}, EVENT),
        ({"hoodie.table.precombine.field": "ts"}, EVENT),
        ({"hoodie.payload.ordering.field": "ts"}, EVENT),
        ({"write.precombine.field": "ts", "record.merge.strategy-id": EVENT_ID.upper()}, EVENT),
        ({"record.merge.strategy-id": COMMIT_ID}, COMMIT),
        (
            {"record.merge.mode": "event-time-ordering"},
            canonical(mode="event-time-ordering"),
        ),
        (
            {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "d"},
            COMMIT | canonical(delete_field="op", delete_marker="d"),
        ),
        ({"record.merge.payload": "EventTimeAvroPayload", "ordering.fields": "ts"}, EVENT),
        ({"payload.class": f"{MODEL}EventTimeAvroPayload", "ordering.fields": "ts"}, EVENT),
        (
            {
                "hoodie.table.legacy.payload.class": f"{MODEL}OverwriteWithLatestAvroPayload",
                "hoodie.record.merge.strategy.id": COMMIT_ID,
            },
            COMMIT,
        ),
        (
            {
                "record.merge.payload": "AWSDmsAvroPayload",
                "record.merge.strategy-id": PAYLOAD_ID,
            },
            COMMIT | canonical(delete_field="Op", delete_marker="D"),
        ),
        (
            {"record.merge.mode": "custom", "record.merge.strategy-id": OTHER_ID},
            canonical(mode="custom", strategy_id=OTHER_ID),
        ),
        ({"bucket": 2}, {"bucket": "2"}),
    ],
)
def test_whatever_defines_a_mode_resolves_to_the_same_options(given, resolved):
    assert resolve(given) == resolved
    assert resolve(resolved) == resolved


@pytest.mark.parametrize("name", PAYLOADS)
def test_a_payload_may_be_named_with_or_without_its_package(name):
    short = resolve({"record.merge.payload": name})
    assert resolve({"record.merge.payload": PAYLOADS[name].path}) == short
    assert resolve(short) == short
    assert "record.merge.payload" not in short


def test_a_class_of_that_name_in_another_package_is_another_class():
    name = "com.example.DefaultHoodieRecordPayload"
    assert resolve({"record.merge.payload": name})["record.merge.mode"] == "custom"


def test_a_debezium_payload_chooses_the_ordering_fields_itself():
    options = resolve(
        {"record.merge.payload": "MySqlDebeziumAvroPayload", "ordering.fields": "_event_seq"}
    )
    assert options["record.merge.ordering-fields"] == "_event_bin_file,_event_pos"


def test_rows_of_a_commit_are_combined_first_only_in_hudis_words():
    partial = canonical(
        mode="event-time-ordering", ordering_fields="ts", partial_mode="ignore-defaults"
    )
    combine = "record.merge.combine-before-upsert"
    assert combine not in resolve(partial)
    hudi = {"hoodie.table.ordering.fields": "ts", "record.merge.partial-mode": "ignore-defaults"}
    assert resolve(hudi) == partial | {combine: "true"}
    assert resolve(hudi | {"hoodie.combine.before.upsert": "false"})[combine] == "false"
    assert combine not in resolve({"hoodie.table.ordering.fields": "ts"})


CONTRADICTIONS = [
    ({"record.merge.mode": "commit-time-ordering", "record.merge.strategy-id": EVENT_ID}),
    ({"hoodie.write.record.merge.mode": "CUSTOM", "record.merge.strategy-id": COMMIT_ID}),
    ({"record.merge.mode": "event-time-ordering", "record.merge.strategy-id": OTHER_ID}),
    ({"payload.class": "DefaultHoodieRecordPayload", "record.merge.strategy-id": COMMIT_ID}),
    ({"payload.class": "AWSDmsAvroPayload", "record.merge.strategy-id": COMMIT_ID}),
    ({"payload.class": "com.example.Mine", "record.merge.mode": "event-time-ordering"}),
    ({"payload.class": "PartialUpdateAvroPayload", "record.merge.mode": "commit-time-ordering"}),
    ({"payload.class": "AWSDmsAvroPayload", "record.merge.delete-field": "kind"}),
    (
        {
            "payload.class": "PartialUpdateAvroPayload",
            "record.merge.partial-mode": "fill-unavailable",
        }
    ),
    ({"record.merge.mode": "commit-time-ordering", "sequence.field": "s"}),
    ({"record.merge.mode": "commit-time-ordering", "sequence.field.sort-order": "descending"}),
    ({"hoodie.table.ordering.fields": "s", "table.merge-engine": "aggregation"}),
]


@pytest.mark.parametrize("options", CONTRADICTIONS)
def test_a_contradiction_names_both_options_as_they_were_spelled(options):
    with pytest.raises(InvalidOptionError) as caught:
        resolve(options)
    for name in options:
        assert f"{name!r} = " in str(caught.value)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (canonical(delete_field="op"), "delete-marker"),
        (canonical(delete_marker="d"), "delete-field"),
        (canonical(mode="custom"), "strategy-id"),
        (canonical(strategy_id=PAYLOAD_ID), "payload"),
        (canonical(implementations="my.module:Merger"), "record.merge.mode=custom"),
        (canonical(mode="custom", strategy_id=OTHER_ID, partial_mode="ignore-defaults"), "partial"),
        (canonical(partial_mode="fill-unavailable"), "unavailable-value"),
        (canonical(unavailable_value="x"), "partial-mode=fill-unavailable"),
        (canonical(mode="newest-first"), "accepted: commit-time-ordering"),
    ],
)
def test_what_is_missing_is_named(options, named):
    with pytest.raises(InvalidOptionError, match=named):
        resolve(options)


def test_a_payload_class_that_is_not_built_in_needs_a_merger(memory_uri):
    options = canonical(payload="com.example.Mine")
    with pytest.raises(InvalidOptionError, match=r"needs 'record\.merge\.strategy-id'"):
        lsmerge.create_table(memory_uri, pa.schema({"k": pa.int64()}), "k", options=options)
