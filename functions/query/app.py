"""The function `query`: reads the rows of worlds."""

from perdure.api import routes_entities
from perdure.api.sandbox import Sandbox
from perdure.api.wiring_lake import lake

sandbox = Sandbox(lake, routes_entities.ROUTES)
handler = sandbox.handler
