"""What tests, compat, faults and bench share: servers, clients, raw connections, waiting.

It imports none of them.
"""
