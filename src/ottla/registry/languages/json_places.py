"""The differences of JSON schemas, in the words of Confluent's registry."""

from typing import Final

from ottla.registry.languages import Difference

_TEXTS: Final = {
    "TYPE_CHANGED": "A type at path '{path}' is different between the {reader} schema and the "
    "{writer} schema",
    "TYPE_NARROWED": "A type at path '{path}' in the {reader} schema is narrower than in the "
    "{writer} schema",
    "ADDED": "The {reader} schema has a restriction at path '{path}' that is missing in the "
    "{writer} schema",
    "INCREASED": "The value at path '{path}' in the {reader} schema is more than its value in the "
    "{writer} schema",
    "DECREASED": "The value at path '{path}' in the {reader} schema is less than its value in the "
    "{writer} schema",
    "CHANGED": "The value at path '{path}' in the {reader} schema is different from its value in "
    "the {writer} schema",
    "REQUIRED_ATTRIBUTE_ADDED": "The {reader} schema has a required property at path '{path}' that "
    "is not required in the {writer} schema",
    "REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL": "The {reader} schema has an unopen content "
    "model and has a required property at path '{path}' which is missing in the {writer} schema",
    "PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL": "The {writer} schema has an open content model and has "
    "a property or item at path '{path}' which is missing in it and present in the {reader} schema",
    "PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL": "The {reader} schema has a closed content model "
    "and is missing a property or item present at path '{path}' in the {writer} schema",
    "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": "The {writer} schema has a "
    "partially open content model, which does not cover the property or item added at path "
    "'{path}' in the {reader} schema",
    "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL": "The {reader} schema has a "
    "partially open content model, which does not cover the property or item removed at path "
    "'{path}'",
    "ADDITIONAL_PROPERTIES_REMOVED": "Additional properties are allowed in the {writer} schema "
    "and not in the {reader} schema at path '{path}'",
    "ADDITIONAL_PROPERTIES_NARROWED": "Additional properties at path '{path}' are narrower in the "
    "{reader} schema than in the {writer} schema",
    "ADDITIONAL_ITEMS_REMOVED": "Additional items are allowed in the {writer} schema and not in "
    "the {reader} schema at path '{path}'",
    "ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL": "The {reader} schema has a closed content model and "
    "is missing an item present at path '{path}' in the {writer} schema",
    "ITEM_ADDED_TO_OPEN_CONTENT_MODEL": "The {writer} schema has an open content model and the "
    "{reader} schema has an item at path '{path}' which is missing in it",
    "ENUM_ARRAY_NARROWED": "An enum array at path '{path}' is narrower in the {reader} schema than "
    "in the {writer} schema",
    "ENUM_ARRAY_CHANGED": "An enum array at path '{path}' is different between the {reader} schema "
    "and the {writer} schema",
    "COMBINED_TYPE_CHANGED": "A combined type at path '{path}' is different between the {reader} "
    "schema and the {writer} schema",
    "COMBINED_TYPE_SUBSCHEMAS_CHANGED": "A combined type at path '{path}' has a subschema in the "
    "{writer} schema that the {reader} schema does not accept",
    "PRODUCT_TYPE_EXTENDED": "A product type at path '{path}' is extended in the {reader} schema",
    "SUM_TYPE_NARROWED": "A sum type at path '{path}' is narrower in the {reader} schema than in "
    "the {writer} schema",
    "NOT_TYPE_EXTENDED": "A type that is not allowed at path '{path}' is wider in the {reader} "
    "schema than in the {writer} schema",
    "EXTENDED": "The value at path '{path}' in the {reader} schema is wider than in the {writer} "
    "schema",
}


def difference(kind: str, path: str) -> Difference:
    """A difference of a kind at a place."""
    text = _TEXTS.get(kind) or _TEXTS[kind.rpartition("_")[2]]
    return Difference(kind, text.replace("{path}", path))
