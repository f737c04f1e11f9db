"""The broker's tier of the audit."""
