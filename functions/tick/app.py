"""The function `tick`: advances a world that somebody asks for, and those whose time has come."""

from perdure.api import routes_tick
from perdure.api.sandbox import Sandbox
from perdure.api.wiring_lake import lake

sandbox = Sandbox(lake, routes_tick.ROUTES, routes_tick.run_due)
handler = sandbox.handler
