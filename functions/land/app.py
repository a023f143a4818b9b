"""The function `land`: copies what is published into the Iceberg tables, exactly once."""

from perdure.api import faces, routes_land
from perdure.api.sandbox import Sandbox
from perdure.api.wiring_lake import lake

sandbox = Sandbox(lake, faces.LAND, routes_land.land_due)
handler = sandbox.handler
