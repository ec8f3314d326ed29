"""The OpenAPI 3.1 document, made from the route table and the structs that check requests."""

import re
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import msgspec

from syndicated.service.http.endpoints import Endpoint
from syndicated.service.http.headers import JSON, PROBLEM
from syndicated.service.http.problem_documents import TITLES, ProblemDocument

REFERENCE = "#/components/schemas/{name}"
CHANGES = "Changes"  # ends the name of a schema whose fields are all optional
DESCRIPTION = """\
Contextual bandits that tune themselves: ask for a decision, play it, and report the reward whenever it comes. A request
carries a key with the scope that its route needs, as `Authorization: Bearer syn_...`; a key with the scope admin may do
everything. Every reply with a status of 400 or above is a problem document. Every reply has an `x-request-id`: the one
that the request sent, or a new one.
"""

_PATH_PARAMETER = re.compile(r"{(\w+)(?::(\w+))?}")


def openapi_document(table: Sequence[Endpoint]) -> dict[str, Any]:
    """The OpenAPI document of a route table."""
    kinds = [kind for e in table for kind in (e.body, e.query, e.reply) if kind is not None]
    found, schemas = msgspec.json.schema_components([*kinds, ProblemDocument], ref_template=REFERENCE)
    known = list(zip([*kinds, ProblemDocument], found, strict=True))
    for endpoint in table:
        if endpoint.partial:
            schemas[endpoint.body.__name__ + CHANGES] = _with_optional_fields(schemas[endpoint.body.__name__])
    for schema in schemas.values():
        if "description" in schema:
            schema["description"] = _unindented(schema["description"])
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in table:
        path = _PATH_PARAMETER.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, known, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "syndicated", "version": version("syndicated"), "description": DESCRIPTION},
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
        "parameters": [*_path_parameters(endpoint.path), *_query_parameters(endpoint, schemas)],
        "responses": _responses(endpoint, known),
        "security": [] if endpoint.scope is None else [{"key": []}],
    }
    if endpoint.scope is not None:
        operation["x-scope"] = endpoint.scope
    if endpoint.takes or endpoint.body is not None:
        takes = endpoint.takes or (JSON,)
        content = {kind: {"schema": _body(endpoint, known) if kind == JSON else {}} for kind in takes}
        if endpoint.example is not None:
            content[JSON]["example"] = endpoint.example
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _body(endpoint: Endpoint, known: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    if endpoint.partial:
        return {"$ref": REFERENCE.format(name=endpoint.body.__name__ + CHANGES)}
    return _schema(endpoint.body, known)


def _path_parameters(path: str) -> list[dict[str, Any]]:
    """The parameters in a path."""
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "integer", "minimum": 0} if kind == "int" else {"type": "string", "minLength": 1},
        }
        for name, kind in _PATH_PARAMETER.findall(path)
    ]


def _query_parameters(endpoint: Endpoint, schemas: dict[str, Any]) -> list[dict[str, Any]]:
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
    bad = {str(status): {"description": TITLES[status], **problem} for status in _statuses(endpoint)}
    return {str(endpoint.status): good, **bad, "default": {"description": "Any other problem", **problem}}


def _statuses(endpoint: Endpoint) -> list[int]:
    """The problems that a route is likely to answer with."""
    found = {503}
    if endpoint.scope is not None:
        found |= {401, 403, 429}
    if "{" in endpoint.path:
        found |= {404}
    if endpoint.takes or endpoint.body is not None:
        found |= {409, 413, 422}
    if endpoint.query is not None:
        found |= {422}
    return sorted(found)


def _schema(kind: Any, known: Sequence[tuple[Any, Any]]) -> dict[str, Any]:
    schema: dict[str, Any] = next(schema for other, schema in known if other is kind or other == kind)
    return schema


def _with_optional_fields(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema of changes: the same fields, none required, and none with a default."""
    fields = {name: {k: v for k, v in of.items() if k != "default"} for name, of in schema["properties"].items()}
    return {**schema, "title": schema["title"] + CHANGES, "properties": fields, "required": []}


def _unindented(text: str) -> str:
    return "\n".join(line.strip() for line in text.splitlines())
