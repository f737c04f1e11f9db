"""Work on the event loop: timers, turns, background tasks."""
