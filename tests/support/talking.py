"""An application with agents, for functions and the command line: its model is a script."""

from __future__ import annotations

from typing import Any

from perdure.kernel.session.messages import AssistantMessage, UserMessage
from perdure.runtime.app import App
from perdure.runtime.session.agent import Agent
from perdure.runtime.session.model_scripted import Step, calling
from perdure.runtime.session.ports import ModelRequest
from perdure.runtime.session.tool_function import tool
from perdure.runtime.session.toolbox import Toolbox

app = App("talking")
MADE: list[str] = []
"""Calls that were made in this process, by tool."""


def script(request: ModelRequest, said: int) -> Step:
    """Say what the last input says, or call the tool that it names."""
    asked = [each for each in request.messages if isinstance(each, UserMessage)][-1].text
    is_answered = not isinstance(request.messages[-1], UserMessage)
    if asked in {"look", "launch"} and not is_answered:
        return calling((asked, {"where": "north"}), text="One moment. ")
    return AssistantMessage(text=f"You said {asked}.")


@tool(effect="pure")
def look(where: str) -> dict[str, Any]:
    """Look somewhere.

    Args:
        where: In which direction.
    """
    MADE.append("look")
    return {"where": where, "seen": "a sail"}


@tool(needs_approval=True)
def launch(where: str) -> dict[str, Any]:
    """Launch a boat.

    Args:
        where: In which direction.
    """
    MADE.append("launch")
    return {"launched": where}


app.agent(
    Agent(name="pilot", model="scripted:tests.support.talking:script", tools=Toolbox(look, launch))
)
