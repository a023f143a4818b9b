"""The function `land`: copies what is published into the Iceberg tables, exactly once."""

from perdure.api import routes_land
from perdure.api.sandbox import Sandbox
from perdure.api.wiring_lake import lake

sandbox = Sandbox(lake, routes_land.ROUTES, routes_land.land_due)
handler = sandbox.handler
