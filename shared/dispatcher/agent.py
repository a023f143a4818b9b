"""The agent: what it may do, and who it is."""

from __future__ import annotations

from typing import Final

from dispatcher.airlines import AIRLINES
from dispatcher.app import app
from perdure.runtime.session.agent import Agent
from perdure.runtime.session.tool_function import tool
from perdure.runtime.session.tool_world import world_tools
from perdure.runtime.session.toolbox import Toolbox

AGENT: Final = "dispatcher"
SKY: Final = "sky"
"""The one world that the agent reaches."""


@tool(effect="effectful")
def notify_airline(carrier: str, text: str) -> str:
    """Call an airline. Nobody can say later whether a call was heard, so it is never made twice.

    Args:
        carrier: Two characters, such as UA.
        text: What is said.
    """
    AIRLINES.call(carrier, text)
    return "They have heard it."


app.agent(
    Agent(
        name=AGENT,
        model="scripted:dispatcher.script:dispatch",
        system="You dispatch flights. No flight may go on to a closed airport.",
        tools=Toolbox(*world_tools(SKY, only=("submit", "query", "run_ticks")), notify_airline),
    )
)
