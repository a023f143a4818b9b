"""The function `api`: every route that needs no Arrow."""

from perdure.api import faces
from perdure.api.sandbox import Sandbox
from perdure.api.wiring import api

sandbox = Sandbox(api, faces.API)
handler = sandbox.handler
