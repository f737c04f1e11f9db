"""Values by the schemas of a registry: `value.format` of the source, the sink and of pipelines.

    settings    the options, and the registry that they name
    columns     values of many schemas as one column, and what is said of those that do not fit
    avro_types  Avro schemas as Spark's types, and the other way round
    avro        Avro values: columns by polars where it is there, else value by value by fastavro
    json_schema, protobuf   the other two languages
    writing     a column of structs as values

Importing these modules costs a second: they are imported where a job asks for a format.
"""
