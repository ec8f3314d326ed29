"""HTTP around the core: routes, checks, problem documents, metrics."""
