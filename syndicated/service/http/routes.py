"""The route table: every path of the API, the scope that it needs, its request and its reply."""

from typing import Any

from starlette.responses import FileResponse, HTMLResponse, Response

from syndicated.service.bandits.messages import (
    ActivateRequest,
    Arm,
    ArmNumbers,
    Arms,
    BanditReply,
    Create,
    DecideReply,
    DecideRequest,
    KeyReply,
    KeyRequest,
    ModelReply,
    RewardReply,
    RewardRequest,
    Spec,
)
from syndicated.service.core.log_lines import DecisionReply, Imported
from syndicated.service.http import docs_page
from syndicated.service.http.endpoints import Call, Endpoint
from syndicated.service.http.handlers import (
    ArmsReply,
    AuditLine,
    Erased,
    Health,
    Latest,
    LogQuery,
    UpdateQuery,
    activate,
    arm_numbers,
    arms,
    audit,
    bandit,
    bandits,
    create,
    create_key,
    decide,
    decision,
    decisions,
    drop_arm,
    erase,
    export,
    healthz,
    import_,
    keep_model,
    kept_model,
    keys,
    load_model,
    metrics,
    model,
    models,
    put_arms,
    readyz,
    restore_model,
    retire,
    revoke_key,
    reward,
    update,
)
from syndicated.service.http.headers import BINARY, BYTES, JSON, JSON_LINES, PARQUET
from syndicated.service.http.openapi import openapi_document

BANDITS = "/v1/bandits"
BANDIT = BANDITS + "/{name}"
EXAMPLES: dict[str, Any] = {
    "create": {"name": "news", "spec": {"holdout": 0.05, "log": "all"}},
    "update": {"mode": "off"},
    "arms": {"arms": [{"id": "sports"}, {"id": "politics"}]},
    "decide": {"context": {"hour": 9, "device": "phone"}, "arms": ["sports", "politics"], "event_id": "visit-7"},
    "reward": {"event_id": "visit-7", "reward": 1.0},
    "activate": {"decision_id": "3-0123456789abcdef"},
    "key": {"name": "the shop", "scopes": ["decide", "reward"]},
}
"""Bodies of requests about one bandit, for the docs."""


async def openapi(call: Call) -> dict[str, Any]:
    return openapi_document(TABLE)


async def docs(call: Call) -> Response:
    return HTMLResponse(docs_page.render(TABLE))


async def docs_style(call: Call) -> Response:
    return FileResponse(docs_page.STYLE, media_type="text/css")


TABLE = [
    Endpoint(
        "POST",
        BANDITS,
        "admin",
        "Create a bandit",
        create,
        Create,
        reply=BanditReply,
        status=201,
        example=EXAMPLES["create"],
    ),
    Endpoint("GET", BANDITS, "read", "All bandits", bandits, reply=list[BanditReply]),
    Endpoint("GET", BANDIT, "read", "A bandit as it is now", bandit, reply=BanditReply),
    Endpoint(
        "PATCH",
        BANDIT,
        "admin",
        "Change fields of the spec",
        update,
        Spec,
        query=UpdateQuery,
        reply=BanditReply,
        partial=True,
        example=EXAMPLES["update"],
    ),
    Endpoint("DELETE", BANDIT, "admin", "Retire a bandit: it makes no more decisions", retire, status=204),
    Endpoint(
        "POST",
        BANDIT + "/decide",
        "decide",
        "Decide which arm to play",
        decide,
        DecideRequest,
        reply=DecideReply,
        takes=(JSON, BINARY),
        hot=True,
        example=EXAMPLES["decide"],
    ),
    Endpoint(
        "POST",
        BANDIT + "/reward",
        "reward",
        "Reward a decision",
        reward,
        RewardRequest,
        reply=RewardReply,
        hot=True,
        example=EXAMPLES["reward"],
    ),
    Endpoint(
        "POST",
        BANDIT + "/activate",
        "reward",
        "Activate a deferred decision, because it was played",
        activate,
        ActivateRequest,
        reply=RewardReply,
        example=EXAMPLES["activate"],
    ),
    Endpoint(
        "GET", BANDIT + "/decisions", "read", "The latest decisions", decisions, query=Latest, reply=list[DecisionReply]
    ),
    Endpoint(
        "GET", BANDIT + "/decisions/{id}", "read", "A decision and the events about it", decision, reply=DecisionReply
    ),
    Endpoint("GET", BANDIT + "/arms", "read", "The registered arms", arms, reply=list[Arm]),
    Endpoint(
        "GET", BANDIT + "/numbers", "read", "Decisions and rewards of every arm", arm_numbers, reply=list[ArmNumbers]
    ),
    Endpoint(
        "PUT",
        BANDIT + "/arms",
        "admin",
        "Register arms, or change them",
        put_arms,
        Arms,
        reply=ArmsReply,
        example=EXAMPLES["arms"],
    ),
    Endpoint("DELETE", BANDIT + "/arms/{id:path}", "admin", "Remove an arm, and free its model", drop_arm, status=204),
    Endpoint("GET", BANDIT + "/log", "read", "Export the log", export, query=LogQuery, gives=(JSON_LINES, PARQUET)),
    Endpoint(
        "POST",
        BANDIT + "/log",
        "admin",
        "Import a log into a bandit without decisions",
        import_,
        reply=Imported,
        takes=(JSON_LINES,),
    ),
    Endpoint("GET", BANDIT + "/models", "read", "The kept models", models, reply=list[ModelReply]),
    Endpoint(
        "POST", BANDIT + "/models", "admin", "Keep the model as it is now", keep_model, reply=ModelReply, status=201
    ),
    Endpoint("GET", BANDIT + "/models/current", "read", "Export the model as it is now", model, gives=(BYTES,)),
    Endpoint(
        "PUT",
        BANDIT + "/models/current",
        "admin",
        "Import a model of the same spec",
        load_model,
        reply=BanditReply,
        takes=(BYTES,),
    ),
    Endpoint("GET", BANDIT + "/models/{version:int}", "read", "Export a kept model", kept_model, gives=(BYTES,)),
    Endpoint(
        "POST",
        BANDIT + "/models/{version:int}/restore",
        "admin",
        "Roll back to a kept model",
        restore_model,
        reply=BanditReply,
    ),
    Endpoint("GET", "/v1/keys", "admin", "All keys, without their secrets", keys, reply=list[KeyReply]),
    Endpoint(
        "POST",
        "/v1/keys",
        "admin",
        "Create a key",
        create_key,
        KeyRequest,
        reply=KeyReply,
        status=201,
        example=EXAMPLES["key"],
    ),
    Endpoint("DELETE", "/v1/keys/{id}", "admin", "Revoke a key", revoke_key, reply=KeyReply),
    Endpoint(
        "DELETE", "/v1/subjects/{subject:path}", "admin", "Erase what the log has about a subject", erase, reply=Erased
    ),
    Endpoint(
        "GET",
        "/v1/audit",
        "admin",
        "The audit log: what administrators did",
        audit,
        query=Latest,
        reply=list[AuditLine],
    ),
    Endpoint("GET", "/healthz", None, "Whether the process works", healthz, reply=Health),
    Endpoint("GET", "/readyz", None, "Whether requests are served now", readyz, reply=Health),
    Endpoint("GET", "/metrics", "read", "Metrics for Prometheus", metrics, gives=("text/plain",)),
    Endpoint("GET", "/openapi.json", None, "This document", openapi, reply=dict[str, Any]),
    Endpoint("GET", "/docs", None, "This document as a page", docs, gives=("text/html",)),
    Endpoint("GET", "/docs.css", None, "The style sheet of that page", docs_style, gives=("text/css",)),
]
