"""Reports: the HTML is one well-formed page that needs nothing else, the JSON is what docs/report.schema.json says, and both tell the verdict."""

import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

program, root = sys.argv[1:3]
failures = []


def check(condition, message):
    if not condition:
        failures.append(message)


# ---- JSON Schema, as far as ours use it ----

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


def is_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


def errors(value, schema, top, path="report"):
    """Sentences about where a value leaves its schema."""
    known = {"$schema", "$id", "$defs", "$ref", "title", "description", "type", "const", "enum", "required", "properties", "additionalProperties", "items", "minItems", "maxItems",
             "minLength", "minimum"}
    if set(schema) - known:
        yield f"{path}: this checker does not know {sorted(set(schema) - known)}"
    if "$ref" in schema:
        yield from errors(value, top["$defs"][schema["$ref"].removeprefix("#/$defs/")], top, path)
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(is_type(value, name) for name in types):
        yield f"{path} is {value!r}, not {types}"
        return
    if "const" in schema and value != schema["const"] or "enum" in schema and value not in schema["enum"]:
        yield f"{path} is {value!r}"
    if "minimum" in schema and value < schema["minimum"] or "minLength" in schema and len(value) < schema["minLength"]:
        yield f"{path} is too small: {value!r}"
    if isinstance(value, list):
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            yield f"{path} has {len(value)} entries"
        for i, item in enumerate(value):
            yield from errors(item, schema.get("items", {}), top, f"{path}[{i}]")
    if isinstance(value, dict):
        for key in schema.get("required", []):
            if key not in value:
                yield f"{path}: {key} is missing"
        for key, item in value.items():
            if key in schema.get("properties", {}):
                yield from errors(item, schema["properties"][key], top, f"{path}.{key}")
            elif schema.get("additionalProperties", True) is False:
                yield f"{path}: {key} has no place"
            elif isinstance(schema.get("additionalProperties"), dict):
                yield from errors(item, schema["additionalProperties"], top, f"{path}.{key}")


with open(os.path.join(root, "docs/report.schema.json"), encoding="utf-8") as file:
    schema = json.load(file)


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def check_report(name, case, plant, status, verdict, folder):
    html_path, json_path = (os.path.join(folder, f"{name}.{kind}") for kind in ("html", "json"))
    done = subprocess.run([program, case, plant, html_path, json_path], capture_output=True, text=True, check=False)
    check(done.returncode == status, f"{name}: exit status {done.returncode}, expected {status}: {done.stderr}")
    if not os.path.exists(html_path) or not os.path.exists(json_path):
        failures.append(f"{name}: no reports")
        return None
    with open(json_path, encoding="utf-8") as file:
        report = json.load(file, parse_constant=refuse_constant)
    for sentence in errors(report, schema, schema):
        failures.append(f"{name}: {sentence}")
    check(report["verdict"] == verdict, f"{name}: verdict {report['verdict']}")
    with open(html_path, encoding="utf-8") as file:
        text = file.read()
    try:
        page = xml.fromstring(text.replace("<!DOCTYPE html>", ""))
    except xml.ParseError as error:
        failures.append(f"{name}: the page is not well-formed: {error}")
        return report
    tags = [element.tag for element in page.iter()]
    check("script" not in tags, f"{name}: the page has a script")
    check(tags.count("svg") >= 6, f"{name}: {tags.count('svg')} pictures")
    for element in page.iter():
        for key, value in element.attrib.items():
            check(key not in ("href", "src") and "url(" not in value, f"{name}: the page asks for {value}")
            check(not re.search(r"\b(nan|inf)\b", value), f"{name}: {element.tag} has {key}={value!r}")
    shown = " ".join("".join(page.itertext()).split())
    check("url(" not in text and "@import" not in text, f"{name}: the style sheet asks for something")
    check(" ".join(report["summary"].split()) in shown, f"{name}: the page does not show the summary")
    for node in report["nodes"]:
        check(node["name"] in shown, f"{name}: the page does not show {node['name']}")
    for sentence in report["causes"]:
        check(" ".join(sentence.split()) in shown, f"{name}: the page does not show: {sentence}")
    check(report["reproduce"] in shown, f"{name}: the page does not say how to repeat it")
    return report


# The checker itself must be able to fail.
check(list(errors({"schema": "x"}, schema, schema)), "the schema checker accepts anything")

models = os.path.join(root, "models/moss-small")
with tempfile.TemporaryDirectory() as folder:
    good = check_report("good", f"{models}/case-bf16", "", 0, "pass", folder)
    row = check_report("row", f"{models}/case-bf16", "row-5%", 1, "fail", folder)
    bad = check_report("nan", f"{models}/case-f32", "nan@x.2", 1, "fail", folder)
    text = check_report("text", f"{models}/case-f32", "row-5%@text.0", 1, "fail", folder)
    check_report("mod", f"{models}/case-f32", "sin-cos", 1, "fail", folder)
    check_report("below", f"{models}/case-f32", "norm-eps", 0, "pass", folder)
    if good and row and bad and text:
        check(good["first_failed"] is None and good["planted"] is None and not good["operations"], "good: it has failures")
        check(row["first_failed"] == row["planted"]["node"] == "x.3" and row["planted"]["caught"], "row: not caught at x.3")
        check(len(row["operations"]) == 14, f"row: {len(row['operations'])} operations")
        check(bad["nodes"][7]["cosine"]["value"] is None and bad["nodes"][7]["nonfinite"] == 1, "nan: it is not null")
        check(text["first_failed"] == "text.0", "text: not caught at text.0")
    # A path full of markup stays text.
    hostile = os.path.join(folder, "<b>&amp;\"'<script>alert(1)<")
    os.symlink(f"{models}", os.path.join(folder, "moss-small"))
    os.mkdir(hostile)
    for file in os.listdir(f"{models}/case-f32"):
        os.symlink(f"{models}/case-f32/{file}", os.path.join(hostile, file))
    os.symlink(f"{models}/transformer", os.path.join(folder, "transformer"))
    check_report("hostile", hostile, "", 0, "pass", folder)

print("\n".join(failures) if failures else "reports: all well")
sys.exit(bool(failures))
