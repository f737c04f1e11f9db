"""Work on the event loop: timers, turns, background tasks, flushes in threads.

- `background`: tasks that run by themselves, with their failures logged.
- `supervised`: a task that goes on after a failure.
- `turns`: long work in turns of the loop that clients do not notice.
- `agenda`: one timer for many things that are due at about the same time.
- `flusher`: runs the flushes of many logs together, in threads.
- `waiting`: awaits a `Later` in a coroutine.

Rule of the room: nothing here knows what the work is about. It depends on no other room.
"""
