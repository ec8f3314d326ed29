"""The content-security policies and headers of all HTML that this project makes; nothing else defines any."""

SERVICE_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""Of every reply of the service: its pages load nothing from other sites and have no script in them."""

REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Of the experiments' report, which is one file: its styles and figures are inside, and it loads nothing."""

SERVICE_HEADERS = {
    "content-security-policy": SERVICE_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}
"""Every reply of the service has these, unless it sets one of them itself."""
