"""The API documentation as a page for people: the OpenAPI document and the kinds of problems."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import jinja2
import msgspec

from syndicated.service.http.endpoints import Endpoint
from syndicated.service.http.headers import JSON
from syndicated.service.http.openapi import openapi_document
from syndicated.service.http.problem_documents import PROBLEM_KINDS

FOLDER = Path(__file__).parent
STYLE = FOLDER / "docs.css"


def render(table: Sequence[Endpoint]) -> str:
    """The OpenAPI document of a route table as HTML."""
    document = openapi_document(table)
    schemas = {name: _fields(schema) for name, schema in document["components"]["schemas"].items()}
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["type_name"] = type_name
    environment.globals["curl"] = curl
    described = document["components"]["schemas"]
    template = environment.get_template("docs.html")
    return template.render(document=document, schemas=schemas, described=described, problems=PROBLEM_KINDS)


def curl(method: str, path: str, operation: dict[str, Any]) -> str:
    """A request as a command for a shell; `$URL` is the service and `$KEY` a key."""
    values = {"name": "news", "version": "12", "id": "sports" if "/arms/" in path else "3-0123456789abcdef"}
    for parameter in operation["parameters"]:
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", values.get(parameter["name"], "visitor-3"))
    parts = [f'curl "$URL{path}"' if method == "get" else f'curl -X {method.upper()} "$URL{path}"']
    parts += ['-H "Authorization: Bearer $KEY"'] if operation["security"] else []
    content = operation.get("requestBody", {}).get("content", {})
    if "example" in content.get(JSON, {}):
        parts += [f'-H "Content-Type: {JSON}"', f"-d '{_text(content[JSON]['example'])}'"]
    elif content:
        parts += [f'-H "Content-Type: {next(iter(content))}"', "--data-binary @file"]
    return " \\\n  ".join(parts)


def _fields(schema: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """The name, type, default and description of every field."""
    needed = schema.get("required", ())
    rows = []
    for name, of in schema.get("properties", {}).items():
        default = "required" if name in needed else _text(of["default"]) if "default" in of else ""
        rows.append((name, type_name(of), default, of.get("description", "")))
    return rows


def type_name(schema: dict[str, Any]) -> str:
    """A schema in a few words.

    >>> type_name({"type": "array", "items": {"type": "number", "minimum": 0}})
    'list of number (>= 0)'
    """
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(type_name(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(_text(value) for value in schema["enum"])
    if schema.get("type") == "array":
        parts: Iterable[str] = [type_name(part) for part in schema.get("prefixItems", ())]
        return f"[{', '.join(parts)}]" if parts else f"list of {type_name(schema.get('items') or {})}"
    return f"{schema.get('type', 'anything')}{_bounds(schema)}"


def _bounds(schema: dict[str, Any]) -> str:
    signs = {
        "minimum": ">=",
        "exclusiveMinimum": ">",
        "maximum": "<=",
        "minLength": "length >=",
        "maxLength": "length <=",
    }
    found = [f"{sign} {schema[name]:g}" for name, sign in signs.items() if name in schema]
    return f" ({', '.join(found)})" if found else ""


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()
