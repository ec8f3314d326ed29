"""Templates and static files as responses."""

import math
import time
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from syndicated._formatting import number
from syndicated.service.bandits.records import Key
from syndicated.service.dashboard import charts, formatting
from syndicated.service.http.problem_documents import TITLES, UNNAMED_TITLE

HEADERS = {
    "cache-control": "no-store",
    # Not the API's no-referrer: with that, browsers send the forms of these pages with `Origin: null`.
    "referrer-policy": "same-origin",
}
CACHE_FOR_EVER = "public, max-age=31536000, immutable"
FOLDER = Path(__file__).parent
MEDIA_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


async def static_file(request: Request) -> Response:
    """A file of the pages. Its address has a hash of its content, so browsers may keep it for ever."""
    name = request.path_params["file"]
    if name not in FILES:
        return error_page(404, "there is no such file")
    current = request.query_params.get("v") == VERSIONS[name]
    headers = HEADERS | {"cache-control": CACHE_FOR_EVER if current else "no-cache"}
    return Response(FILES[name], media_type=MEDIA_TYPES[Path(name).suffix], headers=headers)


def redirect(path: str) -> RedirectResponse:
    return RedirectResponse(quote(path, safe="/?=%&"), 303, headers=HEADERS)


def render(status: int, template: str, known: dict[str, Any]) -> Response:
    text = ENVIRONMENT.get_template(template).render(known)
    return HTMLResponse(text, status, headers=HEADERS)


def render_login(status: int, fault: str, then: str) -> Response:
    return render(status, "login.html", {"key": None, "fault": fault, "next": then})


def error_page(status: int, detail: str, key: Key | None = None) -> Response:
    """A problem as a page."""
    title = TITLES.get(status, UNNAMED_TITLE)
    return render(status, "error.html", {"key": key, "status": status, "title": title, "detail": detail})


def _when(at: float) -> Markup:
    """A time in UTC, as in the service's logs."""
    moment = time.gmtime(at)
    day, clock = time.strftime("%Y-%m-%d", moment), time.strftime("%H:%M:%S", moment)
    shown = Markup('<time datetime="{0}T{1}Z"><span class="day">{0} </span>{1}<span class="day"> UTC</span></time>')
    return shown.format(day, clock)


def _ago(at: float, now: float) -> str:
    for unit, length in (("d", 86400), ("h", 3600), ("min", 60), ("s", 1)):
        if now - at >= length:
            return f"{math.floor((now - at) / length)} {unit} ago"
    return "now"


FILES = {file.name: file.read_bytes() for file in sorted((FOLDER / "static").iterdir()) if file.suffix in MEDIA_TYPES}
VERSIONS = {name: sha256(content).hexdigest()[:12] for name, content in FILES.items()}
ENVIRONMENT = Environment(
    loader=FileSystemLoader(FOLDER / "templates"),
    autoescape=True,
    undefined=StrictUndefined,
    lstrip_blocks=True,
)
ENVIRONMENT.filters |= {
    "number": number,
    "percent": formatting.percent,
    "plus_minus": formatting.plus_minus,
    "duration": formatting.duration,
    "params_text": formatting.params_text,
    "when": _when,
    "ago": _ago,
}
ENVIRONMENT.globals |= {
    "charts": charts,
    "static": lambda name: f"/static/{name}?v={VERSIONS[name]}",
}
