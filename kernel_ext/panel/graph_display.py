"""Which form of the graph `%graph` shows: the widget, a picture that is drawn again, or a picture and text.

An exported notebook cannot show a widget, so the output of a widget holds the picture too. Where no person sits before
the kernel (nbconvert, papermill) there is no widget: these programs save its state, and their pages would show a widget
without a kernel in place of the picture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .still_graph import LivePicture, StillGraph

if TYPE_CHECKING:
    from ..host import Host


def graph_view(host: Host) -> Any:
    """The notebook's graph, to display: live where a person can look at it."""
    if host.kernel is None:
        return StillGraph(host)
    from .widget import GraphWidget

    return GraphWidget(host) if host.is_interactive and GraphWidget._esm else LivePicture(host)
