"""The samples of a chart, as JSON for uPlot: one list of times, and one for each line.

The sampler sees what the console's own credentials see. Who has logged in as a user of the brokers
gets the series of topics and groups that the brokers show to that user, and the total.
"""

from starlette.responses import JSONResponse, Response

from ottla.client.group_admin import GroupAdmin
from ottla.client.pipeline_reports import PIPELINES_TOPIC
from ottla.console.calls import BadRequest, ConsoleCall
from ottla.console.settings import Login


def show(call: ConsoleCall) -> Response:
    """`?series=NAME`, once or more."""
    names = call.query.getlist("series")
    if not 0 < len(names) <= 8:
        raise BadRequest("name one to eight series")
    if call.console.settings.login is Login.SASL:
        names = [name if _may_see(call, name) else "" for name in names]
    if call.console.history is None:
        return JSONResponse({"times": [], "lines": [[] for _ in names]})
    times, lines = call.console.history.lines(names)
    return JSONResponse({"times": times, "lines": lines})


def _may_see(call: ConsoleCall, series: str) -> bool:
    kind, _, name = series.partition(":")
    if kind == "topic":
        return any(topic.name == name for topic in call.cluster.topics())
    if kind in ("group", "seconds"):
        with call.cluster.client() as client:
            return any(each.group_id == name for each in GroupAdmin(client).list_groups())
    if kind in ("rows", "behind"):
        return any(topic.name == PIPELINES_TOPIC for topic in call.cluster.topics())
    return True
