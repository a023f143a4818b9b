"""The function `query`: reads the rows of worlds."""

from perdure.api import faces
from perdure.api.sandbox import Sandbox
from perdure.api.wiring_lake import lake

sandbox = Sandbox(lake, faces.QUERY)
handler = sandbox.handler
