"""Options and rows that the documents tell outside of their SQL examples; options as they are spelled there."""

import pytest

TABLE = "CREATE TABLE t (k INT, d STRING, a INT, b INT, s STRING, y BYTES, v {type}, PRIMARY KEY (d, k) NOT ENFORCED)"
NOT_OURS = {
    # Options of Flink's own planner and runtime: there is nothing here that they could change.
    "scan.remove-normalize",
    "execution.checkpointing.max-concurrent-checkpoints",
}


def create(session, options, type_="INT"):
    text = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
    session.sql(f"{TABLE.format(type=type_)} PARTITIONED BY (d) WITH ({text})")


@pytest.mark.parametrize(
    "type_", ["INT", "BIGINT", "TIMESTAMP", "TIMESTAMP(3)", "TIMESTAMP_LTZ", "TIMESTAMP_LTZ(9)"]
)
def test_version_columns(session, type_):
    create(
        session,
        {"table.merge-engine": "versioned", "table.merge-engine.versioned.ver-column": "v"},
        type_,
    )


FLUSS_FUNCTIONS = {
    **dict.fromkeys(["sum", "product", "max", "min", "last_value", "last_value_ignore_nulls"], "a"),
    **dict.fromkeys(["first_value", "first_value_ignore_nulls"], "a"),
    **dict.fromkeys(["listagg", "string_agg"], "s"),
    **dict.fromkeys(["rbm32", "rbm64"], "y"),
}


@pytest.mark.parametrize("function", FLUSS_FUNCTIONS)
def test_functions(session, function):
    field = FLUSS_FUNCTIONS[function]
    create(session, {"table.merge-engine": "aggregation", f"fields.{field}.agg": function})


@pytest.mark.parametrize("function", ["listagg", "string_agg"])
def test_parameters_of_functions(session, function):
    options = {"fields.s.agg": function, f"fields.s.{function}.delimiter": ";"}
    create(session, {"table.merge-engine": "aggregation", **options})


@pytest.mark.parametrize("behavior", ["ignore", "disable", "allow"])
def test_delete_behavior(session, behavior):
    create(session, {"table.merge-engine": "aggregation", "table.delete.behavior": behavior})


@pytest.mark.parametrize(
    "options",
    [
        {"merge-engine": "deduplicate"},
        {"merge-engine": "partial-update", "partial-update.ignore-delete": "true"},
        {"merge-engine": "first-row", "first-row.ignore-delete": "true"},
        {"merge-engine": "first-row", "changelog-producer": "lookup"},
        {
            "merge-engine": "aggregation",
            "fields.a.aggregate-function": "sum",
            "fields.a.ignore-retract": "true",
        },
        {"merge-engine": "aggregation", "fields.s.aggregate-function": "listagg"},
        {"changelog-producer": "input"},
        {"changelog-producer": "lookup", "changelog-producer.row-deduplicate": "true"},
        {"changelog-producer": "full-compaction", "full-compaction.delta-commits": "1"},
        {"lookup.cache-file-retention": "1 h", "lookup.cache-max-memory-size": "256 mb"},
        {"lookup.cache-max-disk-size": "1 gb"},
        {"sequence.field": "a", "sequence.auto-padding": "row-kind-flag"},
        {"sequence.field": "a", "sequence.auto-padding": "second-to-micro"},
        {"sequence.field": "a", "sequence.auto-padding": "millis-to-micro"},
        {"sequence.field": "a", "sequence.auto-padding": "second-to-micro,row-kind-flag"},
        {"rowkind.field": "s"},
        {"bucket": "4"},
        {
            "bucket": "-1",
            "dynamic-bucket.target-row-num": "1000",
            "dynamic-bucket.initial-buckets": "2",
        },
        {"write-only": "true"},
    ],
    ids=str,
)
def test_options_of_paimon(session, options):
    create(session, options, "TIMESTAMP(3)" if "sequence.auto-padding" in options else "INT")


def test_an_index_of_keys_that_move_between_partitions(session):
    session.sql(
        "CREATE TABLE t (k INT PRIMARY KEY NOT ENFORCED, d STRING) PARTITIONED BY (d) "
        "WITH ('bucket' = '-1', 'cross-partition-upsert.index-ttl' = '7 d')"
    )


@pytest.mark.parametrize("name", sorted(NOT_OURS))
def test_options_of_flink_itself_are_refused(session, name):
    with pytest.raises(ValueError, match=name):
        create(session, {name: "true"})


def test_flink_settings_that_the_documents_ask_for(session):
    session.sql("SET 'table.exec.sink.upsert-materialize' = 'NONE'")
    session.sql("SET 'execution.checkpointing.max-concurrent-checkpoints' = '3'")


# -------------------------------------------------------------------------------------- Hudi's page

PAYLOADS = (
    "OverwriteWithLatestAvroPayload",
    "DefaultHoodieRecordPayload",
    "EventTimeAvroPayload",
    "OverwriteNonDefaultsWithLatestAvroPayload",
    "PartialUpdateAvroPayload",
)


def hudi_table(session, properties):
    session.sql(
        "CREATE TABLE t (id STRING, ts BIGINT, name STRING, price STRING) USING hudi "
        f"TBLPROPERTIES (primaryKey = 'id', preCombineField = 'ts', {properties})"
    )


@pytest.mark.parametrize("payload", PAYLOADS)
def test_payload_classes(session, payload):
    hudi_table(
        session,
        f"'hoodie.datasource.write.payload.class' = 'org.apache.hudi.common.model.{payload}'",
    )


@pytest.mark.parametrize("mode", ["COMMIT_TIME_ORDERING", "EVENT_TIME_ORDERING"])
def test_merge_modes(session, mode):
    fields = ", 'hoodie.table.ordering.fields' = 'ts'" if mode == "EVENT_TIME_ORDERING" else ""
    session.sql(
        "CREATE TABLE t (id STRING, ts BIGINT) USING hudi "
        f"TBLPROPERTIES (primaryKey = 'id', 'hoodie.write.record.merge.mode' = '{mode}'{fields})"
    )


@pytest.mark.parametrize(
    ("payload", "current", "incoming", "merged"),
    [
        (PAYLOADS[0], "2, 'name_2', 'price_2'", "1, 'name_1', 'price_1'", (1, "name_1", "price_1")),
        (PAYLOADS[1], "2, 'name_2', 'price_2'", "1, 'name_1', 'price_1'", (2, "name_2", "price_2")),
        (PAYLOADS[4], "2, 'name_1', null", "1, null, 'price_1'", (2, "name_1", "price_1")),
    ],
)
def test_rows_that_the_page_merges(session, rows, payload, current, incoming, merged):
    hudi_table(
        session,
        f"'hoodie.datasource.write.payload.class' = 'org.apache.hudi.common.model.{payload}'",
    )
    session.sql(f"INSERT INTO t VALUES ('1', {current}); INSERT INTO t VALUES ('1', {incoming})")
    assert rows("SELECT * FROM t") == [("1", *merged)]


# ------------------------------------------------------------------------- rows that Paimon's tell


def test_three_records_of_a_partial_update(session, rows):
    session.sql(
        "CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED, price DOUBLE, sales INT, what STRING) "
        "WITH ('merge-engine' = 'partial-update');"
        "INSERT INTO t VALUES (1, 23.0, 10, NULL);"
        "INSERT INTO t VALUES (1, NULL, NULL, 'This is a book');"
        "INSERT INTO t VALUES (1, 25.2, NULL, NULL)"
    )
    assert rows("SELECT * FROM t") == [(1, 25.2, 10, "This is a book")]


def test_two_records_of_an_aggregation(session, rows):
    session.sql(
        "CREATE TABLE t (product_id BIGINT, price DOUBLE, sales BIGINT, PRIMARY KEY (product_id) NOT ENFORCED) WITH ("
        "'merge-engine' = 'aggregation', 'fields.price.aggregate-function' = 'max', "
        "'fields.sales.aggregate-function' = 'sum'); INSERT INTO t VALUES (1, 23.0, 15), (1, 30.2, 20)"
    )
    assert rows("SELECT * FROM t") == [(1, 30.2, 35)]


def test_the_wide_table_with_rows(session, rows):
    """The nested_update example of the page, with orders in it."""
    from tests.statements.documents import examples

    [example] = [e for e in examples() if e.title == "nested update"]
    *definitions, insert, query = example.text.split(";\n")
    session.sql(";".join(definitions))
    session.sql(
        "INSERT INTO orders VALUES (1, 'ada', 'road 1'); INSERT INTO sub_orders VALUES (1, 1, 'tea', 5)"
    )
    session.sql("INSERT INTO sub_orders VALUES (1, 2, 'pot', 20), (1, 1, 'green tea', 6)")
    session.sql(insert)
    assert sorted(rows(query)) == [
        (1, "ada", "road 1", 1, "green tea", 6),
        (1, "ada", "road 1", 2, "pot", 20),
    ]
