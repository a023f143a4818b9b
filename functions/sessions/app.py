"""The function `sessions`: takes what is sent to agents, and goes on with those that the queue names."""

from perdure.api import driving, faces, wiring_queue
from perdure.api.queue import Queued
from perdure.api.sandbox import Sandbox
from perdure.api.wiring_sessions import sessions

queued = Queued(driving.serve_message, wiring_queue.named_for_sessions, driving.HOLD_MS)
sandbox = Sandbox(sessions, faces.SESSIONS, queued=queued)
handler = sandbox.handler
