"""What `check` says of a file, without Spark."""

from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from pyspark_ottla.pipeline.checking import load, query_names
from pyspark_ottla.pipeline.model import LakeSink, Pipeline, TopicSource
from pyspark_ottla.pipeline.problems import WrongFileError
from pyspark_ottla.pipeline.submit import main

RIGHT = """\
pipeline: shop
checkpoint: state
sources:
  clicks:
    topic: clicks
    format: json
    schema: id BIGINT NOT NULL, type STRING, at TIMESTAMP, tags ARRAY<STRING>
    dead_letters: broken
    watermark: {column: at, delay: 10 minutes}
  pages:
    files: pages.parquet
    schema: page STRING, section STRING
steps:
  views: SELECT id, at, type, page FROM clicks JOIN pages ON type = page
  minutes:
    sql: |
      SELECT window.start AS minute, count(*) AS n
      FROM views
      GROUP BY window(at, '1 minute')
sinks:
  split:
    from: clicks
    topic: clicks-{lower(type)}
    key: id
  lake:
    from: views
    lake: lake
    format: delta
    partition_by: [day(at), type]
  out:
    from: minutes
    console: true
"""

Check = Callable[..., list[str]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """What is wrong with a text, each as `line: what`."""

    def look(text: str, environment: Mapping[str, str] = {}) -> list[str]:
        path = tmp_path / "p.yaml"
        path.write_text(dedent(text))
        try:
            load(str(path), environment)
        except WrongFileError as wrong:
            return [line.removeprefix(f"{path}:") for line in str(wrong).splitlines()]
        return []

    return look


def changed(old: str, new: str) -> str:
    assert old in RIGHT
    return RIGHT.replace(old, new, 1)


def loaded(tmp_path: Path, text: str = RIGHT) -> Pipeline:
    path = tmp_path / "p.yaml"
    path.write_text(text)
    return load(str(path), {})


def test_a_right_file_has_no_mistakes(check: Check) -> None:
    assert check(RIGHT) == []


def test_the_example_has_no_mistakes() -> None:
    example = Path(__file__).parents[3] / "examples" / "pipelines" / "clicks.yaml"
    assert query_names(load(str(example))) == ["by_type", "minutes", "lake", "clicks.dead_letters"]


def test_a_file_becomes_plain_values(tmp_path: Path) -> None:
    pipeline = loaded(tmp_path)
    clicks = pipeline.sources["clicks"]
    assert isinstance(clicks, TopicSource)
    assert (clicks.topics, clicks.start, clicks.dead_letters) == (("clicks",), "earliest", "broken")
    lake = pipeline.sinks["lake"]
    assert isinstance(lake, LakeSink)
    assert [part.folder for part in lake.partition_by] == ["at_day", "type"]
    assert pipeline.bootstrap == "127.0.0.1:9092"
    assert pipeline.steps["minutes"].sql.line == 17


def test_an_unknown_key_is_reported_with_the_nearest_right_one(check: Check) -> None:
    text = changed("dead_letters: broken", "dead_leters: broken")
    assert check(text) == [
        "8: source clicks: unknown key dead_leters: did you mean dead_letters?",
    ]


def test_all_mistakes_are_found_at_once(check: Check) -> None:
    text = changed("format: json", "format: jsn").replace("from: minutes", "from: minuts")
    text = text.replace("checkpoint: state\n", "")
    assert check(text) == [
        "1: checkpoint is missing: a folder for the pipeline's progress, as in "
        "`checkpoint: checkpoints/shop`",
        "5: source clicks: format cannot be jsn: did you mean json?",
        "30: sink out: there is no source or step minuts: did you mean minutes?",
    ]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("FROM views", "FROM veiws", "18: step minutes: there is no source or step veiws: did you"),
        ("FROM views", "FROM views WHERE", "19: step minutes: the SQL does not parse: "),
        ("SELECT id, at", "SELECT ida, at", "14: step views: there is no column ida: did you mean"),
        ("SELECT id, at", "SELECT clicks.ida, at", "14: step views: there is no column ida: did"),
        ("SELECT id, at", "DELETE id, at", "14: step views: "),
        ("day(at)", "day(att)", "29: sink lake: partition_by: there is no column att: did"),
        ("day(at)", "week(at)", "29: sink lake: partition_by takes a column or hour(column)"),
        ("lower(type)", "lower(typ)", "23: sink split: topic: there is no column typ: did"),
        ("lower(type)", "lower(type", "23: sink split: topic: lower(type does not parse"),
        ("clicks-{lower", "clicks {lower", "23: sink split: clicks {lower(type)} cannot be a"),
        ("key: id", "key: idd", "24: sink split: there is no column idd: did you mean id?"),
        ("column: at", "column: it", "9: source clicks: watermark: there is no column it"),
        ("delay: 10 minutes", "delay: soon", "9: source clicks: watermark: delay is a time"),
        ("id BIGINT NOT NULL,", "id BIGINT NOT NULL, id INT,", "7: source clicks: the schema does"),
        ("tags ARRAY<STRING>", "tags", "7: source clicks: the schema does not parse: the"),
        ("dead_letters: broken", "dead_letters: clicks", "8: source clicks: dead_letters cannot"),
        ("format: json", "format: json\n    options: {minPartition: 2}",
         "7: source clicks: the format ottla has no option minpartition: did you mean minPart"),
        ("format: json", "format: json\n    options:\n      minPartitions: 2\n      audit: maybe",
         "9: source clicks: option audit is 'maybe', but must be true or false"),
        ("topic: clicks\n", "pattern: cl(\n", "5: source clicks: option subscribePattern is 'cl('"),
        ("key: id", "key: id\n    options: {guarantee: twice}",
         "25: sink split: option guarantee is 'twice', but must be exactly-once or at-least-once"),
        ("checkpoint: state", "checkpoint: state\nbootstrap: http://x",
         "3: source clicks: option kafka.bootstrap.servers: 'http://x' is not a broker's address"),
        ("console: true", "lake: lake", "32: sink out: the sink lake (line 27) has the same fold"),
        ("console: true", "lake: x/../lake", "32: sink out: the sink lake (line 27) has the same"),
        ("console: true", "lake: lake/in", "32: sink out: the sink lake (line 27) and it share a"),
        ("lake: lake", "lake: state", "27: sink lake: the checkpoint (line 2) has the same folder"),
        ("lake: lake", "lake: state/lake", "27: sink lake: the checkpoint (line 2) and it share"),
        ("checkpoint: state", "checkpoint: lake/state", "27: sink lake: the checkpoint (line 2) a"),
        ("day(at)", "day(at), day(at)", "29: sink lake: partition_by: at_day is a duplicate"),
        ("id, at,", "id, id AS At_day, at,", "29: sink lake: partition_by: day(at) adds the colu"),
        ("clicks-{lower(type)}", "clicks", "23: sink split: its rows come from clicks: the pipel"),
        ("topic: clicks\n", "pattern: clicks.*\n", "23: sink split: its rows come from clicks-{l"),
        ("clicks-{lower(type)}", "clicks-{ }", "23: sink split: topic:   does not parse: it must"),
        ("key: id", "key: id, type", "24: sink split: id, type does not parse: it must be one"),
        ("key: id", "key: '*'", "24: sink split: * does not parse: it must be one expression"),
        ("key: id", "value: ''", "24: sink split:  does not parse: it must be one expression"),
        ("dead_letters: broken", "dead_letters: ..", "8: source clicks: .. cannot be a topic's"),
        ("delay: 10 minutes", "delay: 1 hour 3 apples", "9: source clicks: watermark: delay is a"),
        ("schema: id BIGINT", "schema: Id INT, id BIGINT", "7: source clicks: the schema does not"),
        ("schema: id BIGINT", "metadata: true\n    schema: Kafka INT, id BIGINT",
         "8: source clicks: metadata adds the column kafka, which the schema already has"),
        ("from: clicks", "from: Pages", "22: sink split: Pages is a table, not a stream"),
        ("from: clicks", "from: pages", "22: sink split: pages is a table, not a stream"),
        ("topic: clicks\n", "topic: cl icks\n", "5: source clicks: cl icks cannot be a topic"),
        ("topic: clicks\n", "pattern: cl.*\n    topic: x\n", "4: source clicks: it needs one of"),
        ("format: delta", "format: iceberg\n    table: clicks",
         "29: sink lake: table is a namespace and a name, as in shop.clicks"),
        ("format: delta", "format: iceberg\n    table: shop.", "29: sink lake: table is a"),
        ("console: true", "", "30: sink out: it needs one of topic, lake or console"),
        ("  minutes:", "  clicks:", "15: the name clicks is already used (line 4)"),
        ("  minutes:", "  2nd:", "15: 2nd is not a valid name"),
        ("  out:", "  lake:", "30: sinks: lake is a duplicate"),
        ("steps:", "spark: {x: 1}\nsteps:", "13: spark: x is not a Spark setting"),
        ("steps:", "steps: [\n", "not YAML"),
        ("JOIN pages ON type = page", "", "14: step views: there is no column page"),
        ("format: json", "format: text", "7: source clicks: schema is for format: json"),
        ("    schema: id BIGINT NOT NULL, type STRING, at TIMESTAMP, tags ARRAY<STRING>\n", "",
         "4: source clicks: json needs a schema"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_line(
    check: Check, old: str, new: str, problem: str
) -> None:
    found = check(changed(old, new))
    assert any(problem in text for text in found), found


@pytest.mark.parametrize(
    ("old", "new"), [("SELECT id, at", "SELECT ida, at"), ("FROM clicks", "FROM clicsk")]
)
def test_a_mistake_in_a_step_is_not_told_again_by_what_reads_it(
    check: Check, old: str, new: str
) -> None:
    assert [text.split(": there")[0] for text in check(changed(old, new))] == ["14: step views"]


def test_a_step_must_stand_below_what_it_reads(check: Check) -> None:
    text = changed(
        "  views: SELECT id, at, type, page FROM", "  views: SELECT minute AS at FROM minutes, "
    )
    found = check(text)
    assert "14: step views: it reads minutes, which comes below: move that step up" in found
    assert "17: step minutes: it reads itself, through views" in found


def test_a_step_that_reads_itself_is_a_mistake(check: Check) -> None:
    assert "17: step minutes: it reads itself" in check(changed("FROM views", "FROM minutes"))


def test_what_nothing_reads_is_a_mistake(check: Check) -> None:
    found = check(changed("from: minutes", "from: views"))
    assert found == ["15: nothing reads minutes: use it in a step or remove it"]


def test_a_step_over_tables_only_cannot_feed_a_sink(check: Check) -> None:
    text = changed("FROM views\n      GROUP BY window(at, '1 minute')", "FROM pages")
    found = check(text.replace("window.start AS minute", "1 AS minute"))
    assert found == ["30: sink out: minutes reads no topic, so it never changes"]


def test_what_only_spark_can_judge_is_left_to_it(check: Check) -> None:
    for select in (
        "SELECT explode(tags) AS tag, at, type, 1 AS page FROM clicks",
        "SELECT clicks.*, x.* FROM clicks LATERAL VIEW explode(tags) x AS tag",
        "SELECT * EXCEPT (id) FROM clicks",
        "WITH c AS (SELECT *, id + 1 AS page FROM clicks) SELECT id, at, type, page FROM c",
        "SELECT id, at, type, transform(tags, t -> upper(t)) AS page FROM clicks",
        "SELECT id AS a, a + 1 AS page, at, type FROM clicks",
        "SELECT s.x.y AS page, at, type FROM (SELECT struct(1) AS s, at, type FROM clicks)",
        "SELECT clicks.*, n.id AS page FROM clicks CROSS JOIN range(5) AS n",
        "SELECT clicks.*, page FROM clicks JOIN spark_catalog.shop.pages USING (id)",
        "SELECT id, at, type, (SELECT max(id) FROM clicks) AS page FROM clicks",
        "SELECT at, type, 1 AS page FROM clicks UNION ALL SELECT at, type, 2 AS page FROM clicks",
    ):
        text = changed("SELECT id, at, type, page FROM clicks JOIN pages ON type = page", select)
        text = text.replace("  pages:\n    files: pages.parquet\n", "").replace(
            "    schema: page STRING, section STRING\n", ""
        )
        assert check(text) == [], select


def test_sql_that_only_spark_understands_does_not_stop_a_run(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_text(changed("SELECT id, at, type, page FROM clicks JOIN", "SELEKT FROM FROM"))
    with pytest.raises(WrongFileError):
        load(str(path), {})
    assert load(str(path), {}, look_into_sql=False).name == "shop"


def test_unique_needs_a_watermark_somewhere(check: Check) -> None:
    text = changed("      SELECT window.start AS minute, count(*) AS n\n", "      SELECT id\n")
    text = text.replace("\n      GROUP BY window(at, '1 minute')", "\n    unique: id")
    assert check(text) == []
    without = text.replace("    watermark: {column: at, delay: 10 minutes}\n", "")
    assert check(without) == [
        "18: step minutes: unique needs a watermark, in the step or in a source that it reads: "
        "without one it would have to remember every row"
    ]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("checkpoint: state", "checkpoint: lake/_checkpoint"),
        ("format: delta", "format: iceberg"),
        ("topic: clicks\n", "pattern: clicks-[a-z]*\n"),
        ("partition_by: [day(at), type]", "partition_by: [at, type]"),
        ("delay: 10 minutes", "delay: 1 hour 30 minutes"),
        ("schema: id BIGINT", "schema: like INT, check STRING, unique INT, id BIGINT"),
        ("schema: page STRING, section STRING", "schema: 'page: STRING, section: STRING'"),
        ("schema: page STRING", "schema: nothing VOID, page STRING COMMENT 'its name, as is'"),
        ("topic: clicks-{lower(type)}", "topic: clicks-{lower(type)}\n    value: to_json(tags)"),
    ],
)
def test_what_may_be_right_is_no_mistake(check: Check, old: str, new: str) -> None:
    assert check(changed(old, new)) == []


def test_headers_are_a_column_however_their_option_is_written(check: Check) -> None:
    text = changed("format: json", "format: binary\n    options: {includeheaders: 'True'}")
    text = text.replace("    schema: id BIGINT NOT NULL, type STRING, at TIMESTAMP, tags ", "    #")
    text = text.replace("    dead_letters: broken\n", "").replace("column: at", "column: timestamp")
    text = text.replace("SELECT id, at, type, page", "SELECT headers, timestamp AS at, page, topic")
    text = text.replace("type = page", "topic = page").replace("day(at), type", "day(at)")
    assert check(text.replace("{lower(type)}", "{topic}").replace("key: id", "key: key")) == []


def test_environment_variables_are_filled_in(check: Check) -> None:
    text = changed("checkpoint: state", "checkpoint: ${STATE}/x")
    assert check(text, {"STATE": "there"}) == []
    assert check(text) == ["2: the pipeline: the environment variable STATE is not set"]


def test_an_empty_file_is_one_mistake(check: Check) -> None:
    assert check("") == ["1: a pipeline file has `sources:`, `steps:` and `sinks:`"]


def test_a_file_of_other_bytes_is_one_mistake(tmp_path: Path) -> None:
    path = tmp_path / "p.yaml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(WrongFileError, match="not UTF-8"):
        load(str(path))


@pytest.mark.parametrize(
    ("name", "reason"), [("none.yaml", "No such file or directory"), ("", "Is a directory")]
)
def test_what_is_no_file_is_one_line(tmp_path: Path, name: str, reason: str) -> None:
    path = str(tmp_path / name)
    with pytest.raises(SystemExit) as ended:
        main([path, "--once"])
    assert ended.value.code == f"{path}: {reason}"


@pytest.mark.parametrize(
    ("source", "sink", "words"),
    [
        ("format: avro", "", "it needs the option schema.registry.url"),
        ("format: avro, schema: id INT", "", "avro has its schema in the registry"),
        ("format: json, schema: id INT, subject: s", "", "subject is for format: avro or"),
        ("format: json, schema: id INT", ", format: protobuf", "needs the option schema.registry"),
        ("format: json, schema: id INT", ", format: xml", "format cannot be xml"),
    ],
)
def test_formats_of_the_registry(check: Check, source: str, sink: str, words: str) -> None:
    found = check(
        f"checkpoint: s\nsources: {{c: {{topic: t, {source}}}}}\n"
        f"sinks: {{out: {{from: c, topic: o{sink}}}}}\n"
    )
    assert any(words in str(each) for each in found), found


def test_columns_of_the_registry_are_not_guessed(check: Check) -> None:
    text = (
        "checkpoint: s\n"
        "schema_registry: http://127.0.0.1:8081\n"
        "sources: {c: {topic: t, format: avro, dead_letters: d, metadata: true}}\n"
        "steps: {s: SELECT whatever FROM c}\n"
        "sinks: {out: {from: s, topic: o, format: json-schema}}\n"
    )
    assert check(text) == []
