"""Pipelines: one file that a person can read says where rows come from, what SQL makes of them, and
where they go.

The way of a file: `document` (YAML with line numbers) -> `reading` (the grammar) -> `model` (plain
values) -> `checking` (mistakes that can be found without Spark) -> `frames` and `sinks` (Spark's
queries) -> `running` (start, watch, stop). Nothing here is imported by the source and the sink.
"""
