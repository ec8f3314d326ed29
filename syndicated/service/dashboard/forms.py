"""Forms of the pages: where they come from, and what they say."""

from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request

MAX_FORM_BYTES = 4096


def same_site(request: Request) -> bool:
    """Whether a form comes from these pages. Browsers say where a form comes from; other programs need not."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None:
        return site in ("same-origin", "none")
    return origin is None or urlsplit(origin).netloc == request.headers.get("host")


async def read_form(request: Request) -> dict[str, str]:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_FORM_BYTES:
            return {}
    fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=10)
    return {name: values[0] for name, values in fields.items()}


def local_path(path: str | None) -> str:
    """The page to show after the login: always one of this site, whatever the address says."""
    if path and (path == "/" or path.startswith("/bandits/")) and "\\" not in path and path.isprintable():
        return path
    return "/"
