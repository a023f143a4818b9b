"""The function `tick`: advances a world that somebody asks for, and those that the queue names."""

from perdure.api import faces, ticking, wiring_queue
from perdure.api.queue import Queued
from perdure.api.sandbox import Sandbox
from perdure.api.wiring_lake import lake

sandbox = Sandbox(lake, faces.TICK, queued=Queued(ticking.serve_message, wiring_queue.named))
handler = sandbox.handler
