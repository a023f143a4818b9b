"""The function `jobs`: starts jobs of document stores, and goes on with those that the queue names."""

from perdure.api import faces, wiring_queue, working
from perdure.api.queue import Queued
from perdure.api.sandbox import Sandbox
from perdure.api.wiring_jobs import jobs

queued = Queued(working.serve_message, wiring_queue.named_for_jobs, working.HOLD_MS)
sandbox = Sandbox(jobs, faces.JOBS, queued=queued)
handler = sandbox.handler
