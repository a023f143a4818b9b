"""The function `tick`: advances a world that somebody asks for, and those that the queue names."""

from perdure.api import faces, ticking
from perdure.api.sandbox import Sandbox
from perdure.api.wiring_lake import lake

sandbox = Sandbox(lake, faces.TICK, queued=ticking.serve_message)
handler = sandbox.handler
