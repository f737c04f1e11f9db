"""The samples of a chart, as JSON for uPlot: one list of times, and one for each line."""

from starlette.responses import JSONResponse, Response

from ottla.console.calls import BadRequest, Call


def show(call: Call) -> Response:
    """`?series=NAME`, once or more."""
    names = call.query.getlist("series")
    if not 0 < len(names) <= 8:
        raise BadRequest("name one to eight series")
    if call.console.history is None:
        return JSONResponse({"times": [], "lines": [[] for _ in names]})
    times, lines = call.console.history.lines(names)
    return JSONResponse({"times": times, "lines": lines})
