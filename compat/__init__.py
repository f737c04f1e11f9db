"""Other people's clients, tools and habits against Ottla: `python -m compat`, and tests/e2e."""
