"""The function `api`: every route that needs no Arrow."""

from perdure.api import routes_about, routes_commands, routes_worlds
from perdure.api.sandbox import Sandbox
from perdure.api.wiring import api

sandbox = Sandbox(api, (*routes_worlds.ROUTES, *routes_commands.ROUTES, *routes_about.ROUTES))
handler = sandbox.handler
