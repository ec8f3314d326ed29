"""OpenAPI 3.1, and a page to read, both out of the route table and the structs that check requests."""

import re
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jinja2
import msgspec

from syndicated.service.http.endpoints import JSON, PROBLEM, PROBLEMS, Endpoint, ProblemDocument

HERE = Path(__file__).parent
REFERENCE = "#/components/schemas/{name}"
CHANGES = "Changes"
ABOUT = """\
Self-tuning contextual bandits: ask for a decision, play it, and tell the reward whenever it comes. A request carries a
key with the scope that its route needs, as `Authorization: Bearer syn_...`; one with the scope admin may do everything.
Every reply of 400 and above is a problem document. A reply has an `x-request-id`: the one that the request brought, or
a new one.
"""

_PLACE = re.compile(r"{(\w+)(?::(\w+))?}")


def describe(table: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI document of a route table."""
    kinds = [kind for e in table for kind in (e.body, e.query, e.reply) if kind is not None]
    found, schemas = msgspec.json.schema_components([*kinds, ProblemDocument], ref_template=REFERENCE)
    known = list(zip([*kinds, ProblemDocument], found, strict=True))
    for endpoint in table:
        if endpoint.partial:
            schemas[endpoint.body.__name__ + CHANGES] = _any_of_its_fields(schemas[endpoint.body.__name__])
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = _unindented(schema["description"])
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in table:
        path = _PLACE.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, known, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "syndicated", "version": version("syndicated"), "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _operation(endpoint: Endpoint, known: Sequence[tuple[Any, Any]], schemas: dict[str, Any]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": endpoint.run.__name__,
        "summary": endpoint.summary,
        "parameters": [*_places(endpoint.path), *_queries(endpoint, schemas)],
        "responses": _responses(endpoint, known),
        "security": [] if endpoint.scope is None else [{"key": []}],
    }
    if endpoint.scope is not None:
        operation["x-scope"] = endpoint.scope
    if endpoint.takes or endpoint.body is not None:
        takes = endpoint.takes or (JSON,)
        content = {kind: {"schema": _body(endpoint, known) if kind == JSON else {}} for kind in takes}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _body(endpoint: Endpoint, known: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    if endpoint.partial:
        return {"$ref": REFERENCE.format(name=endpoint.body.__name__ + CHANGES)}
    return _schema(endpoint.body, known)


def _places(path: str) -> list[dict[str, Any]]:
    """The parameters in a path."""
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer", "minimum": 0} if kind == "int" else {"type": "string", "minLength": 1},
        }
        for name, kind in _PLACE.findall(path)
    ]


def _queries(endpoint: Endpoint, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    if endpoint.query is None:
        return []
    fields = schemas[endpoint.query.__name__]["properties"]
    return [{"name": name, "in": "query", "required": False, "schema": schema} for name, schema in fields.items()]


def _responses(endpoint: Endpoint, known: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {kind: {} for kind in endpoint.gives}
    if endpoint.reply is not None:
        content = {JSON: {"schema": _schema(endpoint.reply, known)}}
    good: dict[str, Any] = {"description": endpoint.summary}
    if endpoint.status != 204:
        good["content"] = content
    problem = {"content": {PROBLEM: {"schema": _schema(ProblemDocument, known)}}}
    bad = {str(status): {"description": text, **problem} for status, text in _statuses(endpoint).items()}
    return {str(endpoint.status): good, **bad, "default": {"description": "Any other problem", **problem}}


def _statuses(endpoint: Endpoint) -> dict[int, str]:
    """The problems that a route is likely to answer with."""
    found = {503: "Not now: the queue is full, or the journal is away"}
    if endpoint.scope is not None:
        found |= {401: "No valid key", 403: "The key lacks the scope", 429: "The key sent too many requests"}
    if "{" in endpoint.path:
        found |= {404: "There is no such thing"}
    if endpoint.takes or endpoint.body is not None:
        found |= {409: "It does not fit what is there", 413: "The body is too large", 422: "The body is not valid"}
    if endpoint.query is not None:
        found |= {422: "The query is not valid"}
    return dict(sorted(found.items()))


def _schema(kind: Any, known: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    schema: dict[str, Any] = next(schema for other, schema in known if other is kind or other == kind)
    return schema


def _any_of_its_fields(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of changes: the same fields, none required, and none with a default."""
    fields = {name: {k: v for k, v in of.items() if k != "default"} for name, of in schema["properties"].items()}
    return {**schema, "title": schema["title"] + CHANGES, "properties": fields, "required": []}


def _unindented(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())


def page(table: Sequence[Endpoint]) -> str:
    """The document as a page."""
    document = describe(table)
    schemas = {name: _fields(schema) for name, schema in document["components"]["schemas"].items()}
    loader = jinja2.FileSystemLoader(HERE.parent / "dashboard" / "templates")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["kind"] = kind_of
    described = document["components"]["schemas"]
    template = environment.get_template("docs.html")
    return template.render(document=document, schemas=schemas, described=described, problems=PROBLEMS, about=_about())


def _about() -> str:
    return ABOUT.replace("`", "")


def _fields(schema: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Of every field: its name, its type, what it is if it is left out, and what it is for."""
    needed = schema.get("required", ())
    rows = []
    for name, of in schema.get("properties", {}).items():
        default = "required" if name in needed else _text(of["default"]) if "default" in of else ""
        rows.append((name, kind_of(of), default, of.get("description", "")))
    return rows


def kind_of(schema: dict[str, Any]) -> str:
    """A schema in a few words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(kind_of(each) for each in schema["anyOf"]))
    if "enum" in schema:
        return " or ".join(_text(value) for value in schema["enum"])
    if schema.get("type") == "array":
        parts: Iterable[str] = [kind_of(part) for part in schema.get("prefixItems", ())]
        return f"[{', '.join(parts)}]" if parts else f"list of {kind_of(schema.get('items') or {})}"
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
