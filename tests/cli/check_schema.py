#!/usr/bin/env python3
"""Checks JSON files against a JSON Schema, for the words that our schemas use: check_schema.py SCHEMA FILE... Prints what does not fit; exit 1 then."""
import json
import re
import sys

TYPES = {"object": dict, "array": list, "string": str, "number": (int, float), "integer": int, "boolean": bool, "null": type(None)}
KNOWN = {"$schema", "title", "description", "type", "additionalProperties", "required", "properties", "items", "enum", "const", "pattern", "minimum", "anyOf", "$ref", "$defs"}


def is_type(value, name):
    return isinstance(value, TYPES[name]) and not (isinstance(value, bool) and name in ("number", "integer"))


def check(value, schema, root, where):
    unknown = set(schema) - KNOWN
    if unknown:
        sys.exit(f"the schema uses {unknown}, which this checker does not know")
    if "$ref" in schema:
        target = root
        for part in schema["$ref"].lstrip("#/").split("/"):
            target = target[part]
        yield from check(value, target, root, where)
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, name) for name in types):
        yield f"{where}: not {' or '.join(types)}"
        return
    if "const" in schema and value != schema["const"]:
        yield f"{where}: not {schema['const']!r}"
    if "enum" in schema and value not in schema["enum"]:
        yield f"{where}: {value!r} is none of {schema['enum']}"
    if "pattern" in schema and isinstance(value, str) and not re.search(schema["pattern"], value):
        yield f"{where}: {value[:40]!r} does not fit {schema['pattern']}"
    if "minimum" in schema and is_type(value, "number") and value < schema["minimum"]:
        yield f"{where}: {value} is below {schema['minimum']}"
    if "anyOf" in schema and all(list(check(value, option, root, where)) for option in schema["anyOf"]):
        yield f"{where}: fits none of the alternatives"
    if isinstance(value, dict):
        for key in schema.get("required", []):
            if key not in value:
                yield f"{where}: {key} is missing"
        for key, item in value.items():
            if key in schema.get("properties", {}):
                yield from check(item, schema["properties"][key], root, f"{where}.{key}")
            elif schema.get("additionalProperties") is False:
                yield f"{where}: {key} is not known"
    if isinstance(value, list) and "items" in schema:
        for i, item in enumerate(value):
            yield from check(item, schema["items"], root, f"{where}[{i}]")


def load(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


root = load(sys.argv[1])
faults = [fault for path in sys.argv[2:] for fault in check(load(path), root, root, path)]
print("\n".join(faults) if faults else "fits")
sys.exit(1 if faults else 0)
