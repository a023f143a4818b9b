"""The function `tick`: advances a world that somebody asks for, and those whose time has come."""

from perdure.api import faces, routes_tick
from perdure.api.sandbox import Sandbox
from perdure.api.wiring_lake import lake

sandbox = Sandbox(lake, faces.TICK, routes_tick.run_due)
handler = sandbox.handler
