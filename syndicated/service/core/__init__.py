"""The service without its HTTP: it knows the log and the library, and no web framework."""
