"""From the log to the state, and from requests to events. Imports no web framework."""
